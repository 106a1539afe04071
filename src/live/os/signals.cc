#include "live/os/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/str.h"

namespace paceline::os {

Result<SignalDescriptor> SignalDescriptor::open(std::initializer_list<int> signals) {
  sigset_t set{};
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  const int error = pthread_sigmask(SIG_BLOCK, &set, nullptr);
  if (error != 0) return Failure{ErrorCode::Io, str("cannot block signals: errno ", error)};
  const int descriptor = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor < 0) return Failure{ErrorCode::Io, str("signalfd: errno ", errno)};
  return SignalDescriptor(descriptor);
}

SignalDescriptor::~SignalDescriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

SignalDescriptor::SignalDescriptor(SignalDescriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

SignalDescriptor& SignalDescriptor::operator=(SignalDescriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

std::vector<int> SignalDescriptor::read() {
  std::vector<int> signals;
  signalfd_siginfo info{};
  while (::read(descriptor_, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    signals.push_back(static_cast<int>(info.ssi_signo));
  return signals;
}

}  // namespace paceline::os
