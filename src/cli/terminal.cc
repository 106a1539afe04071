#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/str.h"

namespace paceline::cli {
namespace {

// All of it, whatever the terminal takes at a time; a closed terminal is nobody's loss.
void write_all(Stream stream, std::string_view text) {
  const int descriptor = stream == Stream::Output ? STDOUT_FILENO : STDERR_FILENO;
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

int columns_of(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

// Cut at `columns` characters, never inside one (UTF-8).
std::string cut(std::string_view text, size_t columns) {
  size_t shown = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins_character = (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
    if (begins_character && shown++ == columns) return std::string(text.substr(0, i));
  }
  return std::string(text);
}

}  // namespace

Terminal Terminal::of_process() {
  const char* type = std::getenv("TERM");
  const bool is_terminal = ::isatty(STDERR_FILENO) == 1;
  const bool is_dumb = type == nullptr || std::string_view(type) == "dumb";
  const char* no_color = std::getenv("NO_COLOR");
  return Terminal(
      {.is_live = is_terminal && !is_dumb,
       .has_color = is_terminal && !is_dumb && (no_color == nullptr || *no_color == '\0'),
       .columns = columns_of(STDERR_FILENO)},
      write_all);
}

Terminal::Terminal(const Options& options, Write write)
    : options_(options), write_(std::move(write)) {}

std::string Terminal::toned(Tone tone, std::string_view text) const {
  if (!options_.has_color || tone == Tone::Plain) return std::string(text);
  const char* color = tone == Tone::Good ? "\x1b[32m" : tone == Tone::Bad ? "\x1b[31m" : "\x1b[2m";
  return str(color, text, "\x1b[0m");
}

void Terminal::line(Stream stream, std::string_view text) {
  erase_block();
  write_(stream, str(text, "\n"));
  draw_block();
}

void Terminal::line(Tone tone, std::string_view text) { line(Stream::Error, toned(tone, text)); }

void Terminal::set_status(std::vector<std::string> lines) {
  if (!options_.is_live) return;
  if (lines.size() > kMaxStatusLines) lines.resize(kMaxStatusLines);
  if (lines == status_) return;
  erase_block();
  status_ = std::move(lines);
  draw_block();
}

void Terminal::clear_status() { set_status({}); }

void Terminal::erase_block() {
  if (drawn_lines_ == 0) return;
  // To the block's first column and line, then clear from there to the end of the screen.
  write_(Stream::Error, str("\x1b[", drawn_lines_, "A\r\x1b[J"));
  drawn_lines_ = 0;
}

void Terminal::draw_block() {
  if (status_.empty()) return;
  // A line as wide as the terminal would wrap, and the block would be higher than we think.
  const auto columns = static_cast<size_t>(std::max(options_.columns - 1, 20));
  std::string block;
  for (const std::string& text : status_) block += toned(Tone::Faint, cut(text, columns)) + "\n";
  write_(Stream::Error, block);
  drawn_lines_ = status_.size();
}

}  // namespace paceline::cli
