#include "emulated/timed_wait.h"

#include <cerrno>
#include <ctime>

namespace emulated {
namespace {

constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

}  // namespace

int64_t now_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNanosecondsPerSecond + now.tv_nsec;
}

void wait_until(int64_t deadline_nanoseconds) {
  const timespec deadline{.tv_sec = deadline_nanoseconds / kNanosecondsPerSecond,
                          .tv_nsec = deadline_nanoseconds % kNanosecondsPerSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr) == EINTR) {
  }
}

}  // namespace emulated
