#include "live/os/clock.h"

#include <ctime>

namespace paceline::os {

Instant now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Instant::from_nanoseconds(static_cast<int64_t>(time.tv_sec) * 1'000'000'000 +
                                   time.tv_nsec);
}

}  // namespace paceline::os
