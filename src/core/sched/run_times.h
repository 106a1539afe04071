// RunTimes: how long jobs may be expected to run, learned from those that have ended.
//
// Jobs are alike that are of one queue and of one size (1, 2, 3-4, 5-8, ... GPUs). Of each such
// class the last kKept run times are kept; what is expected is a quantile of them. A class with
// fewer than kEnough answers with all queues' jobs of the size, and if those are few too, with
// nothing.
//
// Pure; integers only. add() and expected() cost O(kKept).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "base/time.h"
#include "core/sched/ids.h"

namespace paceline::sched {

class RunTimes {
 public:
  static constexpr size_t kKept = 256;
  static constexpr size_t kEnough = 8;

  void add(QueueId queue, int64_t gpu_milli, Duration run_time);
  // REQUIRES: permille <= 1000. The smallest run time that so many of a thousand do not exceed.
  std::optional<Duration> expected(QueueId queue, int64_t gpu_milli, uint32_t permille) const;

 private:
  using Sizes = std::map<uint32_t, std::deque<Duration>>;  // by size class

  std::map<QueueId, Sizes> by_queue_;
  Sizes all_;
};

}  // namespace paceline::sched
