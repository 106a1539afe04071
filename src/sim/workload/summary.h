// Summary: what a replay comes to, in the figures that schedulers are compared by.
#pragma once

#include <string>
#include <vector>

#include "sim/workload/replay.h"

namespace paceline::sim {

// Of seconds. A percentile is a sample: the smallest that so many percent do not exceed.
struct Spread {
  size_t count = 0;
  double mean = 0, p50 = 0, p99 = 0, max = 0;
};
Spread spread_of(std::vector<Duration> values);

struct SizeClass {
  std::string name;  // of GPUs
  Spread wait;
  Spread completion;
};

struct QueueFigures {
  std::string name;
  double gpu_hours = 0;      // held
  double gpu_hours_due = 0;  // its fair share, over time
  Spread wait;
};

struct Summary {
  Spread completion;  // from submission to end
  Spread wait;        // of it, not running
  std::vector<SizeClass> sizes;
  std::vector<QueueFigures> queues;
  double hours = 0;       // until the last job has ended
  double allocation = 0;  // of all GPU-hours, held
  double lost = 0;        // of all GPU-hours, to evictions
  uint64_t evictions = 0;
  double idle_while_waiting = 0;  // of all GPU-hours, free although a job waits
  double fragmentation = 0;       // of free GPU-hours, on nodes that are partly used
  size_t ended = 0;
};

// Jobs that never ran are not in it; see Replay::left_over.
Summary summary_of(const Replay& replay, const Trace& trace);

}  // namespace paceline::sim
