// Replay: a workload on a cluster in virtual time, with the real planner deciding.
//
// Time jumps from one arrival or end to the next; after all that happens at one instant there is
// one plan. A job runs for exactly as long as in its trace. The same input gives the same digest.
#pragma once

#include <map>
#include <queue>
#include <tuple>
#include <vector>

#include "core/sched/planner.h"
#include "core/sched/run_times.h"
#include "sim/workload/trace.h"

namespace paceline::sim {

// What the scheduler knows of run times.
enum class Foresight : uint8_t {
  Stated,   // what the trace says it expects, if anything
  Perfect,  // the run time itself
  Learned,  // what the trace says, else what jobs that have ended teach (core/sched/run_times.h)
};

struct ReplayOptions {
  sched::Policy policy = {};
  Foresight foresight = Foresight::Stated;
  uint32_t learned_permille = 750;       // quantile of the run times of jobs alike
  sched::StopCost stop = {};             // of every job
  uint64_t steps_per_plan = 50'000'000;  // search budget
};

struct JobRecord {
  size_t trace_index = 0;
  int64_t gpu_milli = 0;
  std::string queue;
  std::optional<Instant> started = {};  // the last time; none: it never ran, or waits again
  Instant ended = {};                   // or will
  Duration kept = {};                   // work that evictions have left it
  uint32_t evictions = 0;
};

// Integrals over time.
struct QueueUse {
  int64_t gpu_milliseconds_held = 0;  // thousandths of a GPU x ms, over 1000
  int64_t gpu_milliseconds_due = 0;   // of its fair share
};

struct ReplayTotals {
  Instant end;
  int64_t gpu_ms_held = 0;
  int64_t gpu_ms_there = 0;
  int64_t gpu_ms_idle_while_waiting = 0;  // free although a job waits
  int64_t gpu_ms_free = 0;
  int64_t gpu_ms_free_in_pieces = 0;  // free on nodes that are partly used
  uint64_t plans = 0;
  uint64_t starts = 0;
  uint64_t evictions = 0;
  int64_t gpu_ms_lost = 0;  // work and restarts that evictions have cost
  uint64_t unfinished_plans = 0;
};

class Replay {
 public:
  // Jobs that the planner refuses, or whose queue is not there, become bad rows.
  Replay(std::shared_ptr<const sched::Topology> topology, sched::QueueTree queues,
         const Trace& trace, ReplayOptions options);

  // Everything that happens at the next instant; false when nothing does any more, or not within a
  // hundred years.
  bool step();

  Instant now() const { return now_; }
  size_t ended_count() const { return ended_count_; }
  size_t waiting_count() const { return planner_.pending_count(); }
  const std::vector<JobRecord>& jobs() const { return records_; }
  const std::vector<BadRow>& bad_rows() const { return bad_rows_; }
  // Jobs that never run, with the reason.
  std::vector<std::pair<size_t, std::string>> left_over() const;  // trace index
  const ReplayTotals& totals() const { return totals_; }
  const std::map<std::string, QueueUse>& use() const { return use_; }  // of leaves
  uint64_t digest() const { return digest_.value(); }

 private:
  // When, which job (its id is its place in records_), and its evictions then: an end of a run that
  // was cut short is passed over.
  using End = std::tuple<Instant, uint64_t, uint32_t>;

  bool is_cut_short(const End& end) const;
  void submit(size_t trace_index);
  void end(size_t record);
  void plan();
  // True if it decided all that could be decided.
  bool plan_once();
  void start(const sched::Start& start);
  void evict(const sched::Eviction& eviction);
  Duration overhead_of(const JobRecord& job) const;
  void pass_time(Instant until);
  std::optional<size_t> queue_of(const TraceJob& job) const;
  std::optional<Duration> expected(const TraceJob& job, const sched::JobSpec& spec) const;
  sched::JobSpec spec_of(const TraceJob& job, sched::JobId id, sched::QueueId queue) const;

  const Trace& trace_;
  ReplayOptions options_;
  sched::Planner planner_;
  sched::RunTimes run_times_;
  int64_t gpus_per_node_ = 0;  // of the largest node
  Instant now_;
  size_t next_arrival_ = 0;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::vector<JobRecord> records_;
  std::vector<BadRow> bad_rows_;
  std::map<std::string, QueueUse> use_;
  ReplayTotals totals_;
  size_t ended_count_ = 0;
  Digest digest_;
};

}  // namespace paceline::sim
