// Eviction: whose running work is stopped so that a job that waits can start.
//
// Two rights, as in KAI. *Preemption*: work of the job's own queue that may be preempted and has a
// lower priority. *Reclaim*: preemptible work of other queues. The two ancestors just below the
// lowest common one are compared: with the job, the claimant's may hold at most its share in
// everything the job asks for (at every level); the victim's must hold more than its share in some
// of it, or more than its quota if the claimant stays within its own.
//
// Protection of quota: what is taken leaves every queue at least its quota (or its share, if that
// is less). Only if no set of victims anywhere does, and the claimant stays within its own quota,
// may a job be taken that reaches below: what its queue holds beyond cannot be freed alone.
//
// Of the sets of whole jobs that may be taken, the one that loses least is: see victim_search.h.
// The unit of harm is the lost rank-millisecond: a job's restart, and its work since the last
// checkpoint.
//
// Termination. A job that has started at the expense of others is protected until something happens
// outside (arrival, end, failure): so between two outside events each eviction lowers the number of
// jobs that are not, and there are finitely many. Beyond that, to keep two jobs from changing
// places with every event, an eviction that leaves all quotas alone must raise the `Standing` in
// lexicographic order: for each level of the queue tree from the top and each priority from the
// highest, how much is held within fair shares by work of at least that priority; then the same
// without regard to shares. Starts without evictions never lower it. One that reaches below a quota
// needs no such gain: its claimant is within its own quota, so nobody may take from it.
//
// Pure. The fleet and the queues are changed in a trial and are afterwards as before.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/sched/job_state.h"

namespace paceline::sched {

struct Victim {
  JobId job;
  int64_t harm_rank_ms = 0;
};

struct EvictionChoice {
  std::vector<Victim> victims;  // by id
  Placement placement;          // of the job that starts instead
  int64_t harm_rank_ms = 0;
  bool reaches_below_quota = false;
};

// All are borrowed for the length of the call.
struct EvictionState {
  const std::map<JobId, Job>& jobs;
  const std::set<JobId>& is_protected;
  QueueTree& queues;
  Fleet& fleet;
};

// What stopping a running job now loses.
int64_t harm_of(const Job& job, Instant now);

// Nothing: no right, no set of victims that makes room, or the budget is spent. REQUIRES: the job
// does not fit without, and breaks no limit.
std::optional<EvictionChoice> choose_victims(const EvictionState& state, const Job& job,
                                             Instant now, SearchBudget& budget);

// One line for those who are asked why: whose share or priority it was, with numbers.
std::string eviction_reason(const Job& beneficiary, const Job& victim, const QueueTree& queues,
                            const EvictionChoice& choice);

}  // namespace paceline::sched
