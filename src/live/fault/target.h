// Target: a process that a fault strikes, held by pidfd so that a signal never reaches a stranger
// that got the number later.
#pragma once

#include <sys/types.h>

#include <optional>

#include "live/os/descriptor.h"

namespace paceline::fault {

class Target {
 public:
  static std::optional<Target> open(pid_t process);

  pid_t process() const { return process_; }
  // False if the process has ended.
  bool signal(int number) const;
  bool has_ended() const;

 private:
  Target(pid_t process, os::Descriptor pidfd) : process_(process), pidfd_(std::move(pidfd)) {}
  pid_t process_;
  os::Descriptor pidfd_;
};

}  // namespace paceline::fault
