// A compute phase that takes no processor: sleeps to an absolute deadline.
#pragma once

#include <cstdint>

namespace emulated {

// CLOCK_MONOTONIC.
int64_t now_nanoseconds();
// Returns at the deadline, or at once if it has passed.
void wait_until(int64_t deadline_nanoseconds);

}  // namespace emulated
