// RankLog: a file with everything that one incarnation of a rank has printed.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "core/model/ids.h"
#include "live/os/descriptor.h"

namespace paceline::agent {

class RankLog {
 public:
  // `directory`/rank<slot>.<incarnation>.log; makes the directory.
  static Result<RankLog> open(const std::string& directory, RankId rank);
  // A line that cannot be written (disk full) is lost; the job goes on.
  void write(const std::vector<std::string>& lines);

 private:
  explicit RankLog(os::Descriptor file) : file_(std::move(file)) {}
  os::Descriptor file_;
};

}  // namespace paceline::agent
