// How a rank waits for another one's progress: it looks, then pauses if every rank has a core, else
// yields its core, and sleeps only after that. A futex alone costs several times what moving a
// small message does.
//
// Every wait ends: when the progress is there, when the region is aborted, or at the deadline. A
// sleeper looks again every kSleepSlice, so neither an abort nor a waker that was killed
// before it woke anybody is missed for longer.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"
#include "live/fabric/region.h"

namespace paceline::fabric {

inline constexpr Duration kSpinLimit = Duration::microseconds(200);
inline constexpr Duration kSleepSlice = Duration::milliseconds(10);

enum class WaitResult : uint8_t { Reached, Aborted, Expired };

// True if `progress` has come to `target` or beyond; both wrap, and are never 2^31 apart.
inline bool has_reached(uint32_t progress, uint32_t target) {
  return static_cast<int32_t>(progress - target) >= 0;
}

// `deadline` is filled in with now + limit by the first wait that has to look at the clock: most
// operations never do.
struct WaitLimit {
  Duration limit;
  Instant deadline = Instant::max();
};

// Acquire: what the rank wrote before it posted `target` is visible after Reached.
WaitResult wait_for(const Region& region, const std::atomic<uint32_t>& progress, uint32_t target,
                    WaitLimit& limit);

// Sets this rank's progress and wakes who sleeps on it. Release.
void publish(const Region& region, std::atomic<uint32_t>& progress, uint32_t value);

}  // namespace paceline::fabric
