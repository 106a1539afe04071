// Planner: which jobs start where, and why the others wait. A value: `apply()` keeps it current,
// `plan()` decides.
//
// plan() serves queue after queue (queue_order.h), in a leaf job after job (JobOrder), and places
// what fits (placer.h). What does not is passed by, unless the policy says otherwise (Backfill):
//
//   Strict    a job that does not fit blocks its queue
//   Pass      others may start; large jobs can starve
//   Reserve   as Pass, but the first jobs that do not fit get a reservation: the nodes that they
//   would
//             have at the earliest time at which enough running jobs are expected to have ended.
//             Others use these nodes only if they are expected to end before.
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

#include "core/sched/queue_order.h"
#include "core/sched/reservation.h"
#include "core/sched/verdict.h"

namespace paceline::sched {

enum class JobOrder : uint8_t {
  Age,            // priority, then the time of submission
  ShortestFirst,  // priority, then the expected run time; jobs without one come last
};

enum class Backfill : uint8_t { Strict, Pass, Reserve };

struct Policy {
  JobOrder order = JobOrder::Age;
  Backfill backfill = Backfill::Reserve;
  uint32_t reservations = 4;  // at most so many jobs at a time have one
  OverCommit over_commit = OverCommit::Proportional;
};

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

struct Plan {
  std::vector<Start> starts;
  std::vector<Reservation> reservations;
  bool is_finished = true;  // false: the budget was spent; call again
  bool operator==(const Plan&) const = default;
};

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

// The plain state, without anything that is derived from it.
struct View {
  std::shared_ptr<const Topology> topology;
  std::vector<QueueSpec> queues;
  std::vector<NodeId> down;
  std::vector<Job> jobs;
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
  void block_queue(const Job& job, Round& round);
  void pass_by(const Job& job, Round& round);
  void reserve_for(Job& job, Round& round);
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
  size_t pending_count_ = 0;
};

// What a planner that knows nothing but the view decides: the same as one that was kept current.
Plan plan_from_scratch(const View& view, Policy policy, Instant now, SearchBudget& budget);

}  // namespace paceline::sched
