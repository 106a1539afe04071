// Terminal: what `pace run` shows. The program's output scrolls, each line with its rank; below it,
// on a terminal, stands a block of at most four lines that is drawn again as things change.
//
// The program's standard output goes to standard output, everything else to standard error, so that
// `pace run ... > log` logs the program alone. Not a terminal: no block, one line per event.
// Single-threaded.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::cli {

enum class Stream { Output, Error };
enum class Tone { Plain, Good, Bad, Faint };

class Terminal {
 public:
  struct Options {
    bool is_live = false;  // standard error is a terminal: draw the block
    bool has_color = false;
    int columns = 80;
  };
  using Write = std::function<void(Stream, std::string_view)>;

  static constexpr size_t kMaxStatusLines = 4;

  // Of this process: looks at its standard error, NO_COLOR and TERM.
  static Terminal of_process();
  Terminal(const Options& options, Write write);

  bool is_live() const { return options_.is_live; }

  // A line that stays.
  void line(Stream stream, std::string_view text);
  void line(Tone tone, std::string_view text);  // to standard error
  // The block from now on; longer lines are cut at the terminal's width.
  void set_status(std::vector<std::string> lines);
  // Takes the block away; what was printed stays.
  void clear_status();

 private:
  void erase_block();
  void draw_block();
  std::string toned(Tone tone, std::string_view text) const;

  Options options_;
  Write write_;
  std::vector<std::string> status_;
  size_t drawn_lines_ = 0;
};

}  // namespace paceline::cli
