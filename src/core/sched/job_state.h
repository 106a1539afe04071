// A job as the planner holds it.
#pragma once

#include <optional>

#include "core/sched/verdict.h"

namespace paceline::sched {

struct Job {
  JobSpec spec;
  size_t leaf = 0;     // index of its queue
  uint32_t shape = 0;  // jobs of equal shape have equal numbers
  Resources total;
  std::optional<Verdict> never = {};        // answers it for good
  std::optional<Placement> placement = {};  // running
  std::optional<JobId> kept_for = {};  // pending: room that it would have is reserved for that job
  Instant started = {};
};

}  // namespace paceline::sched
