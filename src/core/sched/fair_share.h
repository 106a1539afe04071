// Fair share: how one resource is divided among the queues of one level.
//
// The rules are those of NVIDIA's KAI scheduler, the open core of Run:ai:
//
//   1. Each queue gets min(quota, request); the limit caps the request. Priority plays no part.
//   2. What is left goes to one priority after the other, highest first. In rounds: the portion of
//      a queue is its weight among those that still want something. Who needs no more than its
//      portion takes what it needs, and there is a further round; the others take their portion
//      rounded down to whole units.
//   3. What rounding has lost is handed out in units, one per queue: highest priority first,
//      largest lost fraction first, then the older queue, then the lower id.
//
// Ours differs where quotas add up to more than there is: KAI gives every queue its quota on paper,
// so shares exceed the cluster and nobody may reclaim anything. OverCommit chooses.
//
// Pure; integers only; the result does not depend on the order of the claims.
#pragma once

#include <cstdint>
#include <vector>

#include "core/sched/ids.h"
#include "core/sched/resources.h"

namespace paceline::sched {

// What one queue brings to the division of one resource.
struct ShareClaim {
  QueueId id;
  int64_t quota = 0;
  int64_t weight = 1;  // of what is left after quotas; 0: gets none of it
  int64_t limit = kUnlimited;
  int64_t request = 0;  // running and pending
  int32_t priority = 0;
  int64_t created = 0;       // the older queue has the lower number
  int64_t past_use_ppm = 0;  // of what the cluster could have given in the window of the ledger
};

// What happens when quotas in use exceed what there is.
enum class OverCommit : uint8_t {
  Proportional,  // the level's total is divided in proportion to quota
  Priority,      // by priority; in proportion to quota among equals
  AsQuota,       // everyone has its quota on paper, as in KAI: shares may exceed the total
};

struct ShareRule {
  int64_t unit = kMilli;  // what "whole" means: a GPU is not divided by rounding
  OverCommit over_commit = OverCommit::Proportional;
  // Over-time share: a normalised weight w with past use u counts as w + k (w - u), not below 0. 0:
  // no history.
  int64_t history_permille = 0;
};

inline constexpr int64_t kMaxShareWeight = 1'000'000;
inline constexpr int64_t kMaxHistoryPermille = 10'000;

// The share of each claim, in their order. REQUIRES: ids differ; 0 <= total < kUnlimited;
// 0 <= weight <= kMaxShareWeight; amounts are not negative. O(n log n) per round; a round ends with
// at least one queue fewer, so there are at most n.
std::vector<int64_t> divide(int64_t total, const std::vector<ShareClaim>& claims,
                            const ShareRule& rule);

}  // namespace paceline::sched
