#include "live/os/death_bell.h"

#include <time.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/time.h"

namespace paceline::os {
namespace {

// How often the waiter looks whether it is no longer needed.
constexpr Duration kWaitLimit = Duration::seconds(1);
// A process arms its bell soon after its start, or never: it need not be one that has the library.
constexpr Duration kArmPollFirst = Duration::milliseconds(10);
constexpr Duration kArmPollLater = Duration::milliseconds(100);
constexpr int kArmPollsFirst = 1000;

timespec monotonic_after(Duration duration) {
  timespec at{};
  ::clock_gettime(CLOCK_MONOTONIC, &at);
  const int64_t nanoseconds = at.tv_nsec + duration.in_nanoseconds();
  at.tv_sec += nanoseconds / 1'000'000'000;
  at.tv_nsec = nanoseconds % 1'000'000'000;
  return at;
}

}  // namespace

void init_death_bell(const DeathBellParts& parts) {
  pthread_mutexattr_t attributes;
  int error = ::pthread_mutexattr_init(&attributes);
  if (error == 0) error = ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  if (error == 0) error = ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  if (error == 0) error = ::pthread_mutex_init(&parts.mutex, &attributes);
  CHECK(error == 0, std::strerror(error));
  ::pthread_mutexattr_destroy(&attributes);
  parts.is_armed.store(0, std::memory_order_release);
}

DeathBellWaiter::DeathBellWaiter(DeathBellParts parts, std::function<void()> on_ring)
    : parts_(parts), on_ring_(std::move(on_ring)), thread_([this] {
        if (wait_until_armed()) wait_for_ring();
      }) {}

DeathBellWaiter::~DeathBellWaiter() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool DeathBellWaiter::is_stopping() {
  const MutexLock lock(mutex_);
  return is_stopping_;
}

bool DeathBellWaiter::wait_until_armed() {
  const MutexLock lock(mutex_);
  for (int polls = 0; !is_stopping_; ++polls) {
    // Acquire: the process has locked the mutex before it set the flag.
    if (parts_.is_armed.load(std::memory_order_acquire) != 0) return true;
    changed_.wait_for(mutex_, polls < kArmPollsFirst ? kArmPollFirst : kArmPollLater);
  }
  return false;
}

void DeathBellWaiter::wait_for_ring() {
  while (!is_stopping()) {
    const timespec deadline = monotonic_after(kWaitLimit);
    const int result = ::pthread_mutex_clocklock(&parts_.mutex, CLOCK_MONOTONIC, &deadline);
    if (result == ETIMEDOUT) continue;
    if (result == EOWNERDEAD) {
      on_ring_();
      // This thread holds the mutex now and must not end with it: the memory goes away first.
      ::pthread_mutex_consistent(&parts_.mutex);
    }
    // Anything else is damage done by the process to its own ring: then there is no bell.
    if (result == 0 || result == EOWNERDEAD) ::pthread_mutex_unlock(&parts_.mutex);
    return;
  }
}

}  // namespace paceline::os
