// The death bell: hears the end of a process when the kernel begins it.
//
// The process holds a robust mutex in shared memory for life. When it ends, however it ends, the
// kernel walks its list of robust mutexes before it frees any memory, and hands this one to the
// waiter. A pidfd becomes readable only after, about 70 ms later per resident GB.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "live/os/mutex.h"

namespace paceline::os {

// Where the bell lies in shared memory; both must outlive the waiter.
struct DeathBellParts {
  pthread_mutex_t& mutex;
  std::atomic<uint32_t>& is_armed;  // set by the process once it holds the mutex
};

// Makes the mutex process-shared and robust. Before the process is started.
void init_death_bell(const DeathBellParts& parts);

class DeathBellWaiter {
 public:
  // Calls `on_ring` from a thread of its own, at most once: when the holder has ended while it held
  // the mutex. A holder that unlocks it has left in order, and rings nothing.
  DeathBellWaiter(DeathBellParts parts, std::function<void()> on_ring);
  // Waits for the thread: at most one second if the holder is alive and holds the mutex, else not.
  ~DeathBellWaiter();
  DeathBellWaiter(const DeathBellWaiter&) = delete;
  DeathBellWaiter& operator=(const DeathBellWaiter&) = delete;

  // The bell may have been armed by now: spares the waiter the rest of its pause.
  void look_again() { changed_.notify_all(); }

 private:
  bool wait_until_armed() EXCLUDES(mutex_);
  void wait_for_ring() EXCLUDES(mutex_);
  bool is_stopping() EXCLUDES(mutex_);

  DeathBellParts parts_;
  std::function<void()> on_ring_;
  Mutex mutex_;
  Condition changed_;  // is_stopping_, or perhaps is_armed
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace paceline::os
