// SealTrap: holds a thread of another process at the moment at which it has sealed a memfd.
//
// A donor seals the copy of its state when the copy has its checksums, and sends it right after. No
// polling is fast enough to get in between, so the thread is traced, from system call to system
// call: each costs it some tens of microseconds more while the trap is set.
//
// Threads: the tracer is the thread that sets the trap; it alone may poll and destroy it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <utility>

namespace paceline::fault {

class SealTrap {
 public:
  // None if the thread has ended or another traces it.
  static std::optional<SealTrap> set(pid_t thread);
  ~SealTrap();  // the thread runs on, untraced
  SealTrap(SealTrap&& other) noexcept
      : thread_(std::exchange(other.thread_, 0)),
        is_held_(other.is_held_),
        is_sealing_(other.is_sealing_) {}
  SealTrap& operator=(SealTrap&&) = delete;

  enum class Seen { Nothing, Sealed, Ended };
  // Does not wait. Sealed: the thread stands still until the next poll. Whoever sets a trap polls
  // often: the thread stops at every system call until then.
  Seen poll();

 private:
  explicit SealTrap(pid_t thread) : thread_(thread) {}
  // True if the thread stands where it has sealed a memfd; else it runs on.
  bool take_stop(int status);
  void run_to_next_call(int signal);

  pid_t thread_;
  bool is_held_ = false;
  bool is_sealing_ = false;  // inside the call
};

}  // namespace paceline::fault
