// One plan(): queue after queue, job after job. See planner.h for the rules.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "core/sched/planner.h"

namespace paceline::sched {
namespace {

// When a running job is expected to have ended. One that has run longer than expected is taken to
// need as long again, and so on: what is known of it is that it is not among the short ones.
std::optional<Instant> expected_end(const Job& job, Instant now) {
  if (!job.spec.expected) return std::nullopt;
  Duration length = std::max(*job.spec.expected, Duration::seconds(1));
  while (job.started + length <= now) length = length * 2;
  return job.started + length;
}

}  // namespace

struct Planner::Round {
  Instant now;
  SearchBudget& budget;
  Plan plan = {};
  std::vector<Pending::const_iterator> next = {};   // by queue: in a leaf, the job to look at next
  std::vector<std::optional<JobId>> best = {};      // by queue: whose turn it is there
  std::vector<Instant> reserved_from = {};          // by position
  std::map<uint32_t, Instant> no_room_beside = {};  // shapes: with this end or a later one
  uint32_t reservations_tried = 0;

  // Nodes that a job with such an end must leave to others.
  std::optional<ClosedNodes> closed_for(Instant end) const {
    if (plan.reservations.empty()) return std::nullopt;
    ClosedNodes closed(reserved_from.size());
    for (size_t i = 0; i < closed.size(); ++i) closed[i] = reserved_from[i] < end;
    return closed;
  }
};

Plan Planner::plan(Instant now, SearchBudget& budget) {
  queues_.update_shares(fleet_.up_capacity(), policy_.over_commit);
  Round round = begin_round(now, budget);
  while (const std::optional<JobId> id = best_of(queues_.roots(), round)) {
    consider(jobs_.at(*id), round);
    if (budget.is_spent()) {
      round.plan.is_finished = false;
      break;
    }
  }
  return std::move(round.plan);
}

Planner::Round Planner::begin_round(Instant now, SearchBudget& budget) const {
  Round round{.now = now, .budget = budget};
  for (const Pending& pending : pending_) round.next.push_back(pending.begin());
  round.best.resize(queues_.size());
  round.reserved_from.assign(topology_->node_count(), Instant::max());
  std::vector<size_t> order(queues_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [this](size_t a, size_t b) { return queues_[a].depth > queues_[b].depth; });
  for (const size_t queue : order) refresh(queue, round);
  return round;
}

void Planner::refresh(size_t queue, Round& round) const {
  if (!queues_[queue].children.empty()) {
    round.best[queue] = best_of(queues_[queue].children, round);
    return;
  }
  skip_hopeless(queue, round);
  const bool is_at_end = round.next[queue] == pending_[queue].end();
  round.best[queue] = is_at_end ? std::nullopt : std::optional(std::get<JobId>(*round.next[queue]));
}

// Passes by jobs of which this plan, or an earlier one, already knows that there is no room for
// them.
void Planner::skip_hopeless(size_t leaf, Round& round) const {
  if (policy_.backfill == Backfill::Strict) return;
  if (policy_.backfill == Backfill::Reserve && round.reservations_tried < policy_.reservations)
    return;
  while (round.next[leaf] != pending_[leaf].end() &&
         no_room_.contains(jobs_.at(std::get<JobId>(*round.next[leaf])).shape))
    ++round.next[leaf];
}

std::optional<JobId> Planner::best_of(std::span<const size_t> level, const Round& round) const {
  std::optional<Candidate> best;
  std::optional<JobId> job;
  for (const size_t queue : level) {
    if (!round.best[queue]) continue;
    const Candidate candidate{queue, jobs_.at(*round.best[queue]).total};
    if (best && !is_served_before(queues_, candidate, *best)) continue;
    best = candidate;
    job = round.best[queue];
  }
  return job;
}

void Planner::consider(Job& job, Round& round) {
  job.kept_for.reset();
  if (queues_.breach(job.leaf, job.total, job.spec.is_preemptible)) return pass_by(job, round);
  if (auto placement = search(job, round)) return start(job, std::move(*placement), round);
  if (round.budget.is_spent()) return;
  if (policy_.backfill == Backfill::Strict) return block_queue(job, round);
  if (policy_.backfill == Backfill::Reserve) reserve_for(job, round);
  pass_by(job, round);
}

std::optional<Placement> Planner::search(Job& job, Round& round) {
  if (no_room_.contains(job.shape)) return std::nullopt;
  const Instant end = job.spec.expected ? round.now + *job.spec.expected : Instant::max();
  const std::optional<ClosedNodes> closed = round.closed_for(end);
  if (closed) job.kept_for = round.plan.reservations.front().job;
  const auto known = round.no_room_beside.find(job.shape);
  if (known != round.no_room_beside.end() && end >= known->second) return std::nullopt;
  auto placement = Placer(fleet_, round.budget, closed ? &*closed : nullptr).place(job.spec.shape);
  if (placement || round.budget.is_spent()) return placement;
  // Several groups are seated one after the other, so they may fit when less is free. That there is
  // no room for them is not remembered beyond this plan: a planner from scratch would not know it.
  if (closed || job.spec.shape.groups.size() > 1) {
    round.no_room_beside[job.shape] = closed ? end : Instant();
  } else {
    no_room_.insert(job.shape);
  }
  return std::nullopt;
}

void Planner::start(Job& job, Placement placement, Round& round) {
  ++round.next[job.leaf];  // before its entry goes
  dequeue(job);
  --pending_count_;
  job.started = round.now;
  job.placement = placement;
  job.kept_for.reset();
  queues_.add_allocated(job.leaf, job.total, job.spec.is_preemptible);
  round.plan.starts.push_back(Start{.job = job.spec.id, .placement = std::move(placement)});
  for (std::optional<size_t> up = job.leaf; up; up = queues_[*up].parent) refresh(*up, round);
}

void Planner::pass_by(const Job& job, Round& round) {
  ++round.next[job.leaf];
  for (std::optional<size_t> up = job.leaf; up; up = queues_[*up].parent) refresh(*up, round);
}

void Planner::block_queue(const Job& job, Round& round) {
  round.next[job.leaf] = pending_[job.leaf].end();
  for (std::optional<size_t> up = job.leaf; up; up = queues_[*up].parent) refresh(*up, round);
}

void Planner::reserve_for(Job& job, Round& round) {
  if (round.reservations_tried >= policy_.reservations) return;
  ++round.reservations_tried;
  std::vector<ExpectedEnd> ends;
  for (const auto& [id, other] : jobs_) {
    if (!other.placement) continue;
    if (const auto end = expected_end(other, round.now))
      ends.push_back(ExpectedEnd{*end, id, &other.spec.shape, &*other.placement});
  }
  std::sort(ends.begin(), ends.end(), [](const ExpectedEnd& a, const ExpectedEnd& b) {
    return std::pair(a.time, a.job) < std::pair(b.time, b.job);
  });
  const std::optional<ClosedNodes> closed = round.closed_for(Instant::max());
  const Waiting waiting{job.spec.id, job.spec.shape, closed ? &*closed : nullptr};
  auto reservation = reserve(waiting, ends, fleet_, round.budget);
  if (!reservation) return;
  for (const std::vector<PodPlace>& pods : reservation->placement.groups)
    for (const PodPlace& place : pods)
      round.reserved_from[place.node] =
          std::min(round.reserved_from[place.node], reservation->time);
  round.plan.reservations.push_back(std::move(*reservation));
}

}  // namespace paceline::sched
