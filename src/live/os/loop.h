// Loop: the single thread that owns all state of a daemon.
//
// Three things make it act: a file descriptor that is ready, a timer that is due, a function posted
// by another thread. Each runs to its end on the thread that is in run(); nothing needs a lock.
// Built on epoll directly: it is what Asio would give us here, in a hundred lines that compile fast
// and show in which order things happen.
//
// Order within one turn of the loop: ready descriptors, due timers, posted functions.
//
// Threads: post() and stop() from any thread; everything else on the loop's thread, or before
// run().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "live/os/mutex.h"

struct epoll_event;

namespace paceline::os {

class Loop {
 public:
  using Function = std::function<void()>;
  // Gets the epoll events that are there: EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR.
  using ReadyFunction = std::function<void(uint32_t events)>;

  // More posted functions than this are refused: the loop is stuck or far behind.
  static constexpr size_t kMaxPosted = 1u << 18;

  // Fails a CHECK if the process has no file descriptors left.
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Runs `function` on the loop's thread, in the order of posting. False if it was refused, because
  // kMaxPosted are waiting; the caller decides what that means (close its stream, drop a sample).
  // Functions posted after stop() are destroyed unrun with the loop.
  [[nodiscard]] bool post(Function function) EXCLUDES(mutex_);
  // run() returns after the turn in which this is seen.
  void stop();

  // Until stop().
  void run();
  // One turn: waits at most `limit` for something to do. For tests and for draining.
  void run_once(Duration limit);

  // Level-triggered. A descriptor is watched once; the caller keeps it open until unwatch(). The
  // function may unwatch any descriptor, its own too; one that is unwatched is not called again,
  // not even for events of the same turn.
  void watch(int descriptor, uint32_t events, ReadyFunction on_ready);
  void rewatch(int descriptor, uint32_t events);  // other events, same function
  void unwatch(int descriptor);

  // One deadline per name: arming again replaces it. A timer fires once; its function may arm it
  // again.
  void arm(std::string_view name, Instant deadline, Function function);
  void disarm(std::string_view name);

 private:
  struct Timer {
    Instant deadline;
    Function function;
  };

  int wait_limit_ms(Duration limit) const;
  void run_ready(int count, const epoll_event* events);
  void run_due();
  void run_posted() EXCLUDES(mutex_);
  void wake();

  int epoll_ = -1;
  int wake_ = -1;  // eventfd
  std::map<int, std::shared_ptr<ReadyFunction>> ready_functions_;
  std::map<std::string, Timer, std::less<>> timers_;

  Mutex mutex_;
  std::vector<Function> posted_ GUARDED_BY(mutex_);
  bool is_stopped_ GUARDED_BY(mutex_) = false;
};

}  // namespace paceline::os
