// Planner: which jobs start where, and why the others wait. A value: `apply()` keeps it current,
// `plan()` decides.
//
// plan() serves queue after queue (queue_order.h), in a leaf job after job (JobOrder), and places
// what fits (placer.h). For what does not it asks whether running work must yield (eviction.h),
// then keeps a place for the first of them (reservation.h); what else may start meanwhile is a
// matter of policy.
//
// Same state, same bytes: nothing depends on the order in which it came to be. What is decided
// counts as done; the driver reports what happens otherwise.
//
// Jobs of one shape that find no room are searched for once in a plan, and not again before
// something has ended. Pure; integers only.
#pragma once

#include <map>
#include <set>
#include <span>
#include <variant>

#include "core/sched/job_state.h"
#include "core/sched/policy.h"
#include "core/sched/queue_order.h"
#include "core/sched/reservation.h"

namespace paceline::sched {

struct EvictionChoice;

struct JobSubmitted {
  JobSpec job;
};
struct JobEnded {  // or was cancelled, running or not
  JobId job;
};
// Jobs with a pod on a node that goes down wait again, in their old place.
struct NodeChanged {
  NodeId node;
  bool is_up = false;
};
using Delta = std::variant<JobSubmitted, JobEnded, NodeChanged>;

struct Start {
  JobId job;
  Placement placement;
  bool operator==(const Start&) const = default;
};

struct Eviction {
  JobId job;  // waits again, in its old place
  JobId beneficiary;
  int64_t harm_rank_ms = 0;  // lost
  std::string reason;
  bool operator==(const Eviction&) const = default;
};

// Evictions come before starts.
struct Plan {
  std::vector<Eviction> evictions;
  std::vector<Start> starts;
  std::vector<Reservation> reservations;
  bool is_finished = true;  // false: the budget was spent, or evictions made room: call again
  bool operator==(const Plan&) const = default;
};

// What would become of a job.
struct Forecast {
  std::optional<Placement> placement = {};  // it would start at once
  std::vector<Eviction> evictions = {};     // for its sake
  std::optional<Verdict> verdict = {};      // else: why not
  std::optional<Instant> estimated_start =
      {};  // if all that runs ends as expected, and nobody else takes the room
};

// The plain state, without anything that is derived from it.
struct View {
  std::shared_ptr<const Topology> topology;
  std::vector<QueueSpec> queues;
  std::vector<NodeId> down;
  std::vector<Job> jobs;
  std::set<JobId> is_protected;  // see eviction.h
};

class Planner {
 public:
  Planner(std::shared_ptr<const Topology> topology, QueueTree queues, Policy policy);

  static Planner from_view(const View& view, Policy policy);
  View view() const;

  // Refuses what names something unknown, a job whose queue is not a leaf, and impossible amounts.
  Status apply(const Delta& delta);
  Plan plan(Instant now, SearchBudget& budget);

  // Of a pending job. Nothing: it runs, or there is no such job. O(nodes).
  std::optional<Verdict> explain(JobId job) const;

  // If the job were submitted now. Refuses what apply() would. O(state): a copy is asked.
  Result<Forecast> what_if(const JobSpec& job, Instant now, SearchBudget& budget) const;
  // Of a pending job. Nothing: it can never run, a limit is in its way, or too few ends are known.
  std::optional<Instant> estimated_start(JobId job, Instant now, SearchBudget& budget) const;

  const Fleet& fleet() const { return fleet_; }
  const QueueTree& queues() const { return queues_; }
  const std::map<JobId, Job>& jobs() const { return jobs_; }
  size_t pending_count() const { return pending_count_; }
  uint64_t hash() const;

 private:
  // Place of a job in its queue: priority, order, submission, id.
  using PendingKey = std::tuple<int64_t, int64_t, int64_t, JobId>;
  using Pending = std::set<PendingKey>;
  // What one plan() knows beside the state.
  struct Round;

  Status submit(const JobSubmitted& submitted);
  Status end(const JobEnded& ended);
  Status change_node(const NodeChanged& changed);
  PendingKey key_of(const Job& job) const;
  void enqueue(const Job& job);
  void dequeue(const Job& job);
  void release(Job& job);
  Round begin_round(Instant now, SearchBudget& budget) const;
  void consider(Job& job, Round& round);
  std::optional<Placement> search(Job& job, Round& round);
  void start(Job& job, Placement placement, Round& round);
  bool evict_for(Job& job, Round& round);
  void evict(const Job& beneficiary, const EvictionChoice& choice, size_t index, Round& round);
  void refresh_path(size_t leaf, Round& round) const;
  void block_queue(const Job& job, Round& round);
  void pass_by(const Job& job, Round& round);
  void reserve_for(Job& job, Round& round);
  // Of running jobs, by time.
  std::vector<ExpectedEnd> expected_ends(Instant now) const;
  // Whose turn it is in a queue and those below it.
  void refresh(size_t queue, Round& round) const;
  void skip_hopeless(size_t leaf, Round& round) const;
  std::optional<JobId> best_of(std::span<const size_t> level, const Round& round) const;

  std::shared_ptr<const Topology> topology_;
  Policy policy_;
  QueueTree queues_;
  Fleet fleet_;
  Fleet empty_;  // for what would be if nothing ran
  std::map<JobId, Job> jobs_;
  std::map<JobShape, uint32_t> shapes_;
  std::vector<Pending> pending_;  // by queue index
  std::set<uint32_t> no_room_;    // shapes of one group, since something last ended
  std::set<JobId> protected_;     // started at the expense of others since the last apply()
  size_t pending_count_ = 0;
};

// What a planner that knows nothing but the view decides: the same as one that was kept current.
Plan plan_from_scratch(const View& view, Policy policy, Instant now, SearchBudget& budget);

}  // namespace paceline::sched
