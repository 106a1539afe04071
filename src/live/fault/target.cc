#include "live/fault/target.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace paceline::fault {

std::optional<Target> Target::open(pid_t process) {
  if (process <= 0) return std::nullopt;
  const long pidfd = ::syscall(SYS_pidfd_open, process, 0);
  if (pidfd < 0) return std::nullopt;
  return Target(process, os::Descriptor(static_cast<int>(pidfd)));
}

bool Target::signal(int number) const {
  return ::syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0) == 0;
}

bool Target::has_ended() const {
  pollfd ready{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&ready, 1, 0) == 1;
}

}  // namespace paceline::fault
