// RunDirectory: the private folder of one `pace run`, for the controller's journal and for where
// it listens, so that other verbs of the same user find it.
//
// Removed at the end. A run that was killed cannot do that, so each run first removes those of the
// dead: the name tells process, start time and pid namespace.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "live/rpc/endpoint.h"

namespace paceline::cli {

class RunDirectory {
 public:
  // In TMPDIR, else /tmp.
  static Result<RunDirectory> make();
  ~RunDirectory();
  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&&) = delete;

  // Folders of this user's runs that go on, in the same place as make() puts them.
  static std::vector<std::string> of_the_living();
  // What tell_controller() has left there. NotFound, with a remedy, if nothing.
  static Result<rpc::RpcAddress> controller_in(const std::string& path);
  // Nobody but this user can read it.
  Status tell_controller(const rpc::RpcAddress& address) const;

  const std::string& path() const { return path_; }

 private:
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace paceline::cli
