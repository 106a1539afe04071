// EventQueue: virtual time. Actions run in the order of their instants; at one instant, in the
// order in which they were scheduled. Time jumps from one action to the next.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/time.h"

namespace paceline::sim {

class EventQueue {
 public:
  using Action = std::function<void()>;

  Instant now() const { return now_; }

  void at(Instant when, Action action) {
    queue_.push(Entry{std::max(when, now_), next_sequence_++, std::move(action)});
  }
  void after(Duration delay, Action action) { at(now_ + delay, std::move(action)); }

  // Runs the next action; false when there is none.
  bool run_one() {
    if (queue_.empty()) return false;
    Entry entry =
        std::move(const_cast<Entry&>(queue_.top()));  // popped before anything compares it
    queue_.pop();
    CHECK(entry.when >= now_);
    now_ = entry.when;
    ++count_;
    entry.action();
    return true;
  }
  uint64_t count() const { return count_; }

 private:
  struct Entry {
    Instant when;
    uint64_t sequence = 0;
    Action action;
    bool operator<(const Entry& other) const {  // the queue gives the largest first
      return std::pair(when, sequence) > std::pair(other.when, other.sequence);
    }
  };

  Instant now_;
  uint64_t next_sequence_ = 0;
  uint64_t count_ = 0;
  std::priority_queue<Entry> queue_;
};

}  // namespace paceline::sim
