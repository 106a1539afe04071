// One plan(): queue after queue, job after job. See planner.h for the rules.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "core/sched/eviction.h"
#include "core/sched/planner.h"

namespace paceline::sched {
namespace {

// Jobs of one kind have the same rights to evict: leaf, shape, priority.
using Kind = std::tuple<size_t, uint32_t, int32_t>;
Kind kind_of(const Job& job) { return {job.leaf, job.shape, job.spec.priority}; }

}  // namespace

struct Planner::Round {
  Instant now;
  SearchBudget& budget;
  Plan plan = {};
  std::vector<Pending::const_iterator> next = {};   // by queue: in a leaf, the job to look at next
  std::vector<std::optional<JobId>> best = {};      // by queue: whose turn it is there
  std::vector<Instant> reserved_from = {};          // by position
  std::map<uint32_t, Instant> no_room_beside = {};  // shapes: with this end or a later one
  std::set<Kind> without_victims = {};
  uint32_t reservations_tried = 0;
  std::optional<std::vector<ExpectedEnd>> ends = {};  // while the same jobs run

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

void Planner::refresh_path(size_t leaf, Round& round) const {
  for (std::optional<size_t> up = leaf; up; up = queues_[*up].parent) refresh(*up, round);
}

// Passes by jobs for which there is known to be no room.
void Planner::skip_hopeless(size_t leaf, Round& round) const {
  if (policy_.backfill == Backfill::Strict) return;
  if (policy_.backfill == Backfill::Reserve && round.reservations_tried < policy_.reservations)
    return;
  for (; round.next[leaf] != pending_[leaf].end(); ++round.next[leaf]) {
    const Job& job = jobs_.at(std::get<JobId>(*round.next[leaf]));
    const bool has_no_victims =
        policy_.evictions == Evictions::None || round.without_victims.contains(kind_of(job));
    if (!no_room_.contains(job.shape) || !has_no_victims) return;
  }
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
  if (round.budget.is_spent() || evict_for(job, round)) return;
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
  CHECK(std::get<JobId>(*round.next[job.leaf]) == job.spec.id, "job ", job.spec.id, " has no turn");
  ++round.next[job.leaf];  // before its entry goes
  dequeue(job);
  --pending_count_;
  round.ends.reset();
  job.started = round.now;
  job.placement = placement;
  job.kept_for.reset();
  queues_.add_allocated(job.leaf, job.total, job.spec.is_preemptible);
  round.plan.starts.push_back(Start{.job = job.spec.id, .placement = std::move(placement)});
  refresh_path(job.leaf, round);
}

void Planner::pass_by(const Job& job, Round& round) {
  ++round.next[job.leaf];
  refresh_path(job.leaf, round);
}

bool Planner::evict_for(Job& job, Round& round) {
  if (policy_.evictions == Evictions::None) return false;
  const Kind kind = kind_of(job);
  if (round.without_victims.contains(kind)) return false;
  const bool fits_beside_reservations =
      job.kept_for && Placer(fleet_, round.budget, nullptr).find(job.spec.shape).has_value();
  std::optional<EvictionChoice> choice;
  if (!fits_beside_reservations && !round.budget.is_spent())
    choice = choose_victims({jobs_, protected_, queues_, fleet_}, job, round.now, round.budget);
  if (round.budget.is_spent()) return true;  // the plan ends here
  if (!choice) {
    round.without_victims.insert(kind);
    return false;
  }
  for (size_t i = 0; i < choice->victims.size(); ++i) evict(job, *choice, i, round);
  round.no_room_beside.clear();
  round.without_victims.clear();
  round.plan.is_finished = false;
  for (size_t group = 0; group < job.spec.shape.groups.size(); ++group)
    for (const PodPlace& place : choice->placement.groups[group])
      fleet_.occupy(place, job.spec.shape.groups[group].shape);
  start(job, std::move(choice->placement), round);
  protected_.insert(job.spec.id);
  return true;
}

void Planner::evict(const Job& beneficiary, const EvictionChoice& choice, size_t index,
                    Round& round) {
  const Victim& victim = choice.victims[index];
  Job& job = jobs_.at(victim.job);
  std::vector<Start>& starts = round.plan.starts;
  const auto just_started = std::find_if(
      starts.begin(), starts.end(), [&](const Start& start) { return start.job == victim.job; });
  if (just_started != starts.end()) {
    starts.erase(just_started);  // it has not run
  } else {
    round.plan.evictions.push_back(
        Eviction{.job = victim.job,
                 .beneficiary = beneficiary.spec.id,
                 .harm_rank_ms = victim.harm_rank_ms,
                 .reason = eviction_reason(beneficiary, job, queues_, choice)});
  }
  round.ends.reset();
  release(job);
  enqueue(job);
  ++pending_count_;
  refresh_path(job.leaf, round);
}

void Planner::block_queue(const Job& job, Round& round) {
  round.next[job.leaf] = pending_[job.leaf].end();
  refresh_path(job.leaf, round);
}

void Planner::reserve_for(Job& job, Round& round) {
  if (round.reservations_tried >= policy_.reservations) return;
  ++round.reservations_tried;
  const std::optional<ClosedNodes> closed = round.closed_for(Instant::max());
  if (!round.ends) round.ends = expected_ends(round.now);
  const Waiting waiting{job.spec.id, job.spec.shape, closed ? &*closed : nullptr};
  auto reservation = reserve(waiting, *round.ends, fleet_, round.budget);
  if (!reservation) return;
  for (const std::vector<PodPlace>& pods : reservation->placement.groups)
    for (const PodPlace& place : pods)
      round.reserved_from[place.node] =
          std::min(round.reserved_from[place.node], reservation->time);
  round.plan.reservations.push_back(std::move(*reservation));
}

}  // namespace paceline::sched
