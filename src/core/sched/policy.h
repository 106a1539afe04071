// What an operator chooses, beside queues and their quotas.
#pragma once

#include <cstdint>

#include "core/sched/fair_share.h"

namespace paceline::sched {

enum class JobOrder : uint8_t {
  Age,            // priority, then the time of submission
  ShortestFirst,  // priority, then the expected run time; jobs without one come last
};

// What becomes of the jobs behind one that does not fit.
enum class Backfill : uint8_t {
  Strict,   // they wait: it blocks its queue
  Pass,     // they may start; large jobs can starve
  Reserve,  // they may start where they do not delay the first that do not fit (reservation.h)
};

enum class Evictions : uint8_t {
  None,     // what runs runs to its end
  Allowed,  // by the rights and in the order of eviction.h
};

struct Policy {
  JobOrder order = JobOrder::Age;
  Backfill backfill = Backfill::Reserve;
  uint32_t reservations = 4;  // at most so many jobs at a time have one
  Evictions evictions = Evictions::None;
  OverCommit over_commit = OverCommit::Proportional;
};

}  // namespace paceline::sched
