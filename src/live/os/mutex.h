// Mutex, MutexLock and Condition: std::mutex and std::condition_variable with the annotations that
// clang's -Wthread-safety checks (libstdc++ has none). Under g++ the annotations are empty.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/time.h"

#if defined(__clang__)
#define PACELINE_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define PACELINE_THREAD_ANNOTATION(x)
#endif

#define CAPABILITY(x) PACELINE_THREAD_ANNOTATION(capability(x))
#define SCOPED_CAPABILITY PACELINE_THREAD_ANNOTATION(scoped_lockable)
#define REQUIRES(...) PACELINE_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) PACELINE_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) PACELINE_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RELEASE(...) PACELINE_THREAD_ANNOTATION(release_capability(__VA_ARGS__))

// Abseil, which comes with gRPC, defines these two alike.
#ifndef GUARDED_BY
#define GUARDED_BY(x) PACELINE_THREAD_ANNOTATION(guarded_by(x))
#endif
#ifndef NO_THREAD_SAFETY_ANALYSIS
#define NO_THREAD_SAFETY_ANALYSIS PACELINE_THREAD_ANNOTATION(no_thread_safety_analysis)
#endif

namespace paceline::os {

class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() {
    if (mutex_.try_lock()) return;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    mutex_.lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  void unlock() RELEASE() { mutex_.unlock(); }
  std::mutex& native() { return mutex_; }

  // For a thread that takes the mutex again and again: whoever waits for it has it first. A thread
  // that has been woken needs longer to come than this one to lock again, and would find it taken
  // for as long as there is work. Not for long: it may have to wait for a core.
  void give_way() {
    if (waiting_.load(std::memory_order_relaxed) == 0) return;
    const auto until = std::chrono::steady_clock::now() + kLongestWay;
    while (waiting_.load(std::memory_order_relaxed) > 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
  }

 private:
  static constexpr std::chrono::milliseconds kLongestWay{1};

  std::mutex mutex_;
  std::atomic<int> waiting_ = 0;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Every wait has a deadline. Callers loop over their own condition, inside the function that holds
// the lock, because the analysis does not look into a predicate.
class Condition {
 public:
  // Returns after a notification, `limit`, or for no reason. The mutex is held again then.
  void wait_for(Mutex& mutex, Duration limit) REQUIRES(mutex) NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mutex.native(), std::adopt_lock);
    condition_.wait_for(lock, std::chrono::nanoseconds(limit.in_nanoseconds()));
    lock.release();  // stays locked
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace paceline::os
