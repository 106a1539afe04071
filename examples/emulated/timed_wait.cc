#include "emulated/timed_wait.h"

#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>

namespace emulated {
namespace {

constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;
// Nobody tells a process when it was stopped. While stops are frequent it looks at the clock this
// often, and takes a stop for having begun in the middle between two looks.
constexpr int64_t kLookNanoseconds = 100'000;
constexpr int64_t kFrequentNanoseconds = kNanosecondsPerSecond;

std::atomic<int64_t> continued_at{0};  // newest SIGCONT
static_assert(std::atomic<int64_t>::is_always_lock_free, "written by a signal handler");

void note_continued(int) { continued_at.store(now_nanoseconds(), std::memory_order_relaxed); }

// Returns early when a signal has been handled.
void sleep_until(int64_t nanoseconds) {
  const timespec deadline{.tv_sec = nanoseconds / kNanosecondsPerSecond,
                          .tv_nsec = nanoseconds % kNanosecondsPerSecond};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr);
}

}  // namespace

int64_t now_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNanosecondsPerSecond + now.tv_nsec;
}

void prepare_to_wait() {
  prctl(PR_SET_TIMERSLACK, 1UL);
  struct sigaction action {};
  action.sa_handler = note_continued;
  action.sa_flags = SA_RESTART;  // for all calls but the sleep, which always returns
  sigaction(SIGCONT, &action, nullptr);
}

void TimedWait::until(int64_t nanoseconds) {
  for (;;) {
    const int64_t now = now_nanoseconds();
    leave_out_stops(now);
    const int64_t deadline = start_ + nanoseconds;
    if (now >= deadline) return;
    const bool is_frequent =
        now - continued_at.load(std::memory_order_relaxed) < kFrequentNanoseconds;
    sleep_until(is_frequent ? std::min(deadline, now + kLookNanoseconds) : deadline);
  }
}

void TimedWait::leave_out_stops(int64_t now) {
  const int64_t continued = continued_at.load(std::memory_order_relaxed);
  if (continued > seen_) {
    const int64_t ran = std::min(kLookNanoseconds, continued - seen_) / 2;
    start_ += continued - seen_ - ran;
  }
  seen_ = now;
}

}  // namespace emulated
