// How fast a run was, from the times of its commits.
#pragma once

#include <vector>

#include "cli/report/run_record.h"

namespace paceline::cli {

struct Throughput {
  double mean = 0;          // steps per second, first commit to last
  double healthy_mean = 0;  // the same, without the time and the commits of open incidents
};

Throughput throughput_of(const RunRecord& record);

// Steps per second over `slices` equal parts of the run. For the plot.
struct RatePoint {
  double at_s = 0;
  double steps_per_s = 0;
};
std::vector<RatePoint> rates_of(const RunRecord& record, size_t slices);

}  // namespace paceline::cli
