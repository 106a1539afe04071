// Process: a child in a process group of its own, which dies with the thread that started it.
//
// Its descriptor (pidfd) becomes readable when the process has ended. Until reap() the pid and the
// group belong to it, so that a signal never reaches a stranger.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "live/os/descriptor.h"

namespace paceline::os {

struct SpawnOptions {
  std::vector<std::string> arguments;  // [0] is looked for in PATH if it has no slash
  std::vector<std::pair<std::string, std::string>> environment;  // the whole of it
  std::string working_directory;                                 // empty: that of the caller
  // Kept open across exec, under the same numbers. All others must be close-on-exec.
  std::vector<int> inherited;
  int standard_output = -1;  // -1: that of the caller
  int standard_error = -1;
  // Scheduling priority (nice value) of the child.
  int niceness = 0;
};

// The program cannot be started here, now or later.
struct SpawnError {
  std::string reason;
  bool is_permanent = false;  // not found, not executable
};

struct ExitStatus {
  bool is_killed = false;  // by a signal
  int32_t code = 0;        // exit code, or the signal
};

class Process {
 public:
  // Starts a program. Returns once it is executing (or has failed to). The child gets SIGKILL when
  // the calling *thread* ends: call it from one that lives as long as the daemon. Standard input is
  // /dev/null; the signal mask is empty and every handler is the default.
  static std::variant<Process, SpawnError> spawn(const SpawnOptions& options);

  Process(Process&&) noexcept = default;
  Process& operator=(Process&&) noexcept = default;
  // Kills the group and reaps, if reap() has not: nothing is left behind. Waits for the kernel to
  // finish, which takes about 70 ms per resident GB.
  ~Process();

  pid_t id() const { return id_; }
  int descriptor() const { return descriptor_.get(); }
  bool is_reaped() const { return is_reaped_; }

  // To the whole group; no effect after reap().
  void signal_group(int signal) const;
  // Never waits.
  bool has_ended() const;
  // Waits for its end, ends what is left of its group, then takes its status. Once.
  ExitStatus reap();

 private:
  Process(pid_t id, Descriptor descriptor) : id_(id), descriptor_(std::move(descriptor)) {}

  pid_t id_ = -1;
  Descriptor descriptor_;
  bool is_reaped_ = false;
};

// The whole environment of this process.
std::vector<std::pair<std::string, std::string>> current_environment();

}  // namespace paceline::os
