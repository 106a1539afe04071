// Goal: a thread that takes the mutex again and again lets others in. Method: one that never pauses
// against one that asks for it many times; without the way that it gives, each of those can take a
// scheduler's tick.
#include "live/os/mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "live/os/clock.h"

namespace paceline::os {
namespace {

TEST(Mutex, BusyHolderThatGivesWay_LetsAWaiterInSoon) {
  constexpr Duration kHeld = Duration::microseconds(200);
  constexpr int kTurns = 50;
  Mutex mutex;
  std::atomic<bool> is_over = false;
  std::atomic<int64_t> turns_of_busy = 0;
  std::thread busy([&] {
    while (!is_over) {
      mutex.give_way();
      const MutexLock lock(mutex);
      const Instant until = now() + kHeld;
      while (now() < until) {
      }
      ++turns_of_busy;
    }
  });
  while (turns_of_busy == 0) std::this_thread::yield();
  const int64_t before = turns_of_busy;
  for (int i = 0; i < kTurns; ++i) const MutexLock lock(mutex);
  // The busy one may begin once more before it sees who waits, and once while that one wakes up.
  EXPECT_LE(turns_of_busy - before, 3 * kTurns);
  is_over = true;
  busy.join();
}

}  // namespace
}  // namespace paceline::os
