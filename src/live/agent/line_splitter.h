// LineSplitter: bytes of a rank's output, in pieces as they come, into lines of bounded length.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::agent {

// A longer line is cut into several.
inline constexpr size_t kMaxLineBytes = 8192;

class LineSplitter {
 public:
  // The lines that are complete now, without their newline (and carriage return before it).
  std::vector<std::string> add(std::string_view bytes);
  // What is left without a newline at the end of the output.
  std::vector<std::string> finish();

 private:
  std::string rest_;  // shorter than kMaxLineBytes
};

}  // namespace paceline::agent
