#include "live/agent/rank_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/str.h"

namespace paceline::agent {
namespace {

void append(std::vector<std::string>* lines, std::vector<std::string> more) {
  lines->insert(lines->end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
}

}  // namespace

Result<RankOutput::Pair> RankOutput::make(bool is_stderr) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return Failure{ErrorCode::Io, str("pipe: ", std::strerror(errno))};
  Pair pair{RankOutput(os::Descriptor(ends[0]), is_stderr), os::Descriptor(ends[1])};
  // Only the reading end: the program expects blocking writes.
  if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
    return Failure{ErrorCode::Io, str("pipe: ", std::strerror(errno))};
  return pair;
}

std::vector<std::string> RankOutput::read() {
  std::vector<std::string> lines;
  while (!has_ended_ && !is_exhausted() && read_some(&lines)) {
  }
  if (has_ended_) append(&lines, splitter_.finish());
  return lines;
}

std::vector<std::string> RankOutput::finish() {
  std::vector<std::string> lines;
  // A pipe holds at most 1 MiB; a process that has escaped from the group must not keep it open.
  constexpr int kMaxReads = 256;
  for (int i = 0; i < kMaxReads && !has_ended_ && read_some(&lines); ++i) {
  }
  has_ended_ = true;
  append(&lines, splitter_.finish());
  return lines;
}

bool RankOutput::read_some(std::vector<std::string>* lines) {
  std::array<char, 16384> buffer;
  const ssize_t bytes = ::read(descriptor_.get(), buffer.data(), buffer.size());
  if (bytes < 0 && errno == EINTR) return true;
  if (bytes < 0 && errno == EAGAIN) return false;
  if (bytes <= 0) {
    has_ended_ = true;
    return false;
  }
  const size_t before = lines->size();
  append(lines, splitter_.add({buffer.data(), static_cast<size_t>(bytes)}));
  bytes_taken_ += static_cast<size_t>(bytes);
  lines_taken_ += lines->size() - before;
  return true;
}

}  // namespace paceline::agent
