#include "live/fabric/wait.h"

#include <sched.h>

#include "live/fabric/futex.h"
#include "live/os/clock.h"

namespace paceline::fabric {
namespace {

// How many times it looks between two looks at the abort word and the clock. A pause takes tens of
// nanoseconds, a yield a microsecond if somebody else runs.
constexpr int kLooksPerPauseCheck = 64;
constexpr int kLooksPerYieldCheck = 8;

inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

bool is_aborted(const Region& region) {
  return region.header().abort.load(std::memory_order_acquire) != 0;
}

// Looks `looks` times. True: reached.
bool look(const std::atomic<uint32_t>& progress, uint32_t target, bool has_own_core) {
  const int looks = has_own_core ? kLooksPerPauseCheck : kLooksPerYieldCheck;
  for (int i = 0; i < looks; ++i) {
    if (has_reached(progress.load(std::memory_order_acquire), target)) return true;
    if (has_own_core) {
      pause_briefly();
    } else {
      ::sched_yield();
    }
  }
  return false;
}

// The counter goes up before the kernel compares the word, and publish() changes the word before it
// reads the counter, both sequentially consistent: either the publisher sees a sleeper, or the
// kernel sees the new value and does not sleep.
void sleep_on(const Region& region, const std::atomic<uint32_t>& progress, uint32_t target) {
  std::atomic<uint32_t>& sleepers = region.header().sleepers;
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t seen = progress.load(std::memory_order_seq_cst);
  if (!has_reached(seen, target)) futex_wait(progress, seen, kSleepSlice);
  sleepers.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace

WaitResult wait_for(const Region& region, const std::atomic<uint32_t>& progress, uint32_t target,
                    WaitLimit& limit) {
  if (has_reached(progress.load(std::memory_order_acquire), target)) return WaitResult::Reached;
  const bool has_own_core = region.ranks() <= region.cores();
  if (look(progress, target, has_own_core)) return WaitResult::Reached;
  const Instant begun = os::now();
  if (limit.deadline == Instant::max()) limit.deadline = begun + limit.limit;
  while (true) {
    if (is_aborted(region)) return WaitResult::Aborted;
    const Instant now = os::now();
    if (now >= limit.deadline) return WaitResult::Expired;
    if (now - begun < kSpinLimit) {
      if (look(progress, target, has_own_core)) return WaitResult::Reached;
    } else {
      sleep_on(region, progress, target);
      if (has_reached(progress.load(std::memory_order_acquire), target)) return WaitResult::Reached;
    }
  }
}

void publish(const Region& region, std::atomic<uint32_t>& progress, uint32_t value) {
  progress.exchange(value, std::memory_order_seq_cst);
  if (region.header().sleepers.load(std::memory_order_seq_cst) != 0) futex_wake_all(progress);
}

}  // namespace paceline::fabric
