// RankOutput: one of the two pipes (standard output, standard error) on which a rank prints.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "live/agent/line_splitter.h"
#include "live/os/descriptor.h"

namespace paceline::agent {

class RankOutput {
 public:
  // What is taken from one pipe in kWindowInterval. A rank that prints more waits in its own
  // write, instead of flooding the stream to the controller.
  static constexpr size_t kBudgetBytes = 64u << 10;
  static constexpr size_t kBudgetLines = 500;

  struct Pair;
  static Result<Pair> make(bool is_stderr);

  int descriptor() const { return descriptor_.get(); }
  bool has_ended() const { return has_ended_; }  // nobody can write to it any more
  bool is_stderr() const { return is_stderr_; }

  // Lines that are there now, as far as the budget goes.
  std::vector<std::string> read();
  // No more is read before renew_budget().
  bool is_exhausted() const { return bytes_taken_ >= kBudgetBytes || lines_taken_ >= kBudgetLines; }
  void renew_budget() { bytes_taken_ = lines_taken_ = 0; }
  // After the end of the process: everything, also a last line without newline.
  std::vector<std::string> finish();

 private:
  RankOutput(os::Descriptor descriptor, bool is_stderr)
      : descriptor_(std::move(descriptor)), is_stderr_(is_stderr) {}
  bool read_some(std::vector<std::string>* lines);

  os::Descriptor descriptor_;
  bool is_stderr_;
  LineSplitter splitter_;
  size_t bytes_taken_ = 0;
  size_t lines_taken_ = 0;
  bool has_ended_ = false;
};

struct RankOutput::Pair {
  RankOutput ours;
  os::Descriptor theirs;
};

}  // namespace paceline::agent
