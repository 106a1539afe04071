// Reservation: when and where a job that does not fit now will.
//
// Running jobs are taken to end when they are expected to; the earliest end after which the job
// fits is its time, and where it then would go is its place. Jobs with no expected end are taken to
// stay for ever, so a job may have no reservation at all.
#pragma once

#include <optional>
#include <span>

#include "core/sched/placer.h"

namespace paceline::sched {

struct Reservation {
  JobId job;
  Instant time;
  Placement placement;
  bool operator==(const Reservation&) const = default;
};

// The job that is to get one.
struct Waiting {
  JobId job;
  const JobShape& shape;
  const ClosedNodes* closed;  // may be null
};

// What a running job gives back, and when.
struct ExpectedEnd {
  Instant time;
  JobId job;
  const JobShape* shape = nullptr;
  const Placement* placement = nullptr;
};

// `ends` are sorted by time, then job; `closed` nodes are others' reservations. The fleet is
// unchanged afterwards. REQUIRES: the job does not fit now. O(log ends) placements.
std::optional<Reservation> reserve(const Waiting& waiting, std::span<const ExpectedEnd> ends,
                                   Fleet& fleet, SearchBudget& budget);

}  // namespace paceline::sched
