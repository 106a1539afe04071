// EventQueue: virtual time. Actions run in the order of their instants; at one instant, in the
// order in which they were scheduled. Time jumps from one action to the next.
//
// What is sorted are the instants; the actions stay where they are until they run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <queue>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/time.h"
#include "sim/kernel/action.h"

namespace paceline::sim {

class EventQueue {
 public:
  Instant now() const { return now_; }

  void at(Instant when, Action action) {
    queue_.push(Entry{std::max(when, now_), next_sequence_++, keep(std::move(action))});
  }
  void after(Duration delay, Action action) { at(now_ + delay, std::move(action)); }

  // Runs the next action; false when there is none.
  bool run_one() {
    if (queue_.empty()) return false;
    const Entry entry = queue_.top();
    queue_.pop();
    CHECK(entry.when >= now_);
    now_ = entry.when;
    ++count_;
    Action action = std::move(actions_[entry.place]);
    free_places_.push_back(entry.place);
    action();
    return true;
  }
  uint64_t count() const { return count_; }

 private:
  struct Entry {
    Instant when;
    uint64_t sequence = 0;
    uint32_t place = 0;                         // in actions_
    bool operator<(const Entry& other) const {  // the queue gives the largest first
      return when != other.when ? when > other.when : sequence > other.sequence;
    }
  };

  uint32_t keep(Action action) {
    if (free_places_.empty()) {
      actions_.push_back(std::move(action));
      return static_cast<uint32_t>(actions_.size() - 1);
    }
    const uint32_t place = free_places_.back();
    free_places_.pop_back();
    actions_[place] = std::move(action);
    return place;
  }

  Instant now_;
  uint64_t next_sequence_ = 0;
  uint64_t count_ = 0;
  std::priority_queue<Entry> queue_;
  std::deque<Action> actions_;
  std::vector<uint32_t> free_places_;
};

}  // namespace paceline::sim
