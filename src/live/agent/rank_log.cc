#include "live/agent/rank_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/str.h"

namespace paceline::agent {

Result<RankLog> RankLog::open(const std::string& directory, RankId rank) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return Failure{ErrorCode::Io, str("cannot make ", directory, ": ", error.message())};
  const std::string path = str(directory, "/rank", rank.slot, ".", rank.incarnation, ".log");
  os::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file.is_open())
    return Failure{ErrorCode::Io, str("cannot write ", path, ": ", std::strerror(errno))};
  return RankLog(std::move(file));
}

void RankLog::write(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text.append(line).push_back('\n');
  if (!text.empty()) [[maybe_unused]]
    const ssize_t written = ::write(file_.get(), text.data(), text.size());
}

}  // namespace paceline::agent
