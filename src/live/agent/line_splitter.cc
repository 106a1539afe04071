#include "live/agent/line_splitter.h"

#include <algorithm>
#include <utility>

namespace paceline::agent {

std::vector<std::string> LineSplitter::add(std::string_view bytes) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    const size_t room = kMaxLineBytes - rest_.size();
    const size_t newline = bytes.substr(0, room).find('\n');
    const bool is_line = newline != std::string_view::npos;
    const size_t taken = is_line ? newline : std::min(room, bytes.size());
    rest_ += bytes.substr(0, taken);
    bytes.remove_prefix(taken + (is_line ? 1 : 0));
    if (!is_line && rest_.size() < kMaxLineBytes) break;
    if (is_line && rest_.ends_with('\r')) rest_.pop_back();
    lines.push_back(std::exchange(rest_, {}));
  }
  return lines;
}

std::vector<std::string> LineSplitter::finish() {
  if (rest_.empty()) return {};
  return {std::exchange(rest_, {})};
}

}  // namespace paceline::agent
