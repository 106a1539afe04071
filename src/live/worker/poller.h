// Poller: an epoll set whose entries have numbers that are never used again, so that an event
// collected before its descriptor was closed is recognised as stale.
//
// wait() belongs to the progress thread. Everything else may be called by any thread that holds the
// job's mutex, also while the progress thread waits; wake() by any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "live/os/descriptor.h"

namespace paceline::worker {

class Poller {
 public:
  using Key = uint64_t;
  struct Event {
    Key key = 0;
    uint32_t events = 0;  // EPOLLIN, ...
  };

  static Result<Poller> make();

  // The caller keeps the descriptor, and removes it before it is closed.
  Key add(int descriptor, uint32_t events);
  void change(Key key, int descriptor, uint32_t events);
  void remove(int descriptor);

  // What is ready; empty after `limit`, an interruption or a wake().
  std::vector<Event> wait(Duration limit);
  void wake();

 private:
  Poller(os::Descriptor set, os::Descriptor wakeup);

  static constexpr Key kWakeup = 0;
  os::Descriptor set_;
  os::Descriptor wakeup_;
  Key next_key_ = 1;
};

}  // namespace paceline::worker
