// RunDirectory: the private folder of one `pace run`, for the controller's journal.
//
// Removed at the end. A run that was killed cannot do that, so each run first removes those of the
// dead: the name tells process, start time and pid namespace.
#pragma once

#include <string>

#include "base/result.h"

namespace paceline::cli {

class RunDirectory {
 public:
  // In TMPDIR, else /tmp.
  static Result<RunDirectory> make();
  ~RunDirectory();
  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace paceline::cli
