// What `pace sim` says of its replays: a table for people, JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "sim/workload/summary.h"

namespace paceline::cli {

struct PolicyOutcome {
  std::string policy;
  sim::Summary summary;
  uint64_t digest = 0;
  std::vector<sim::BadRow> refused;                       // by the planner
  std::vector<std::pair<size_t, std::string>> left_over;  // line of the trace, and why it never ran
  uint64_t plans = 0, starts = 0, unfinished_plans = 0;
  double wall_s = 0;
  double plan_us_p50 = 0, plan_us_p99 = 0, plan_us_max = 0;  // with the events that led to it
};

struct SimOutcome {
  std::string trace_format;
  size_t jobs = 0;
  size_t outside_window = 0;          // rows left out by --from and --until
  std::vector<sim::BadRow> bad_rows;  // of the trace
  std::vector<PolicyOutcome> policies;
};

std::string table_of(const SimOutcome& outcome);
std::string json_of(const SimOutcome& outcome);

}  // namespace paceline::cli
