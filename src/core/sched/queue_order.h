// Whose job is next. The rules of KAI, in this order, between two queues of one level and the jobs
// that they would start:
//
//   1. a queue above its share in every resource comes last;
//   2. a queue that stays within its quota with the job comes first;
//   3. the higher priority;
//   4. a queue that would use a resource of which its share is nothing comes later;
//   5. the smaller dominant share with the job;  6. the same without it;
//   7. the smaller fair share;  8. the older queue, then the lower id.
//
// The dominant share: the largest, over resources, of allocated / max(quota, share), the latter
// capped by the limit.
#pragma once

#include <compare>

#include "core/sched/queue_tree.h"

namespace paceline::sched {

// A fraction that is compared exactly. REQUIRES: denominator > 0.
struct Ratio {
  int64_t numerator = 0;
  int64_t denominator = 1;
  std::strong_ordering operator<=>(const Ratio& other) const;
  bool operator==(const Ratio& other) const {
    return (*this <=> other) == std::strong_ordering::equal;
  }
};

// Of `queue` if it held `allocated`.
Ratio dominant_share(const QueueTree& tree, const Queue& queue, const Resources& allocated);

struct Candidate {
  size_t queue = 0;  // index of the queue of this level
  Resources amount;  // of the job that it would start
};

// True if `a` is served before `b`. A strict order: of two queues one always is.
bool is_served_before(const QueueTree& tree, const Candidate& a, const Candidate& b);

}  // namespace paceline::sched
