#include "core/sched/eviction_trial.h"

#include <algorithm>

#include "base/check.h"

namespace paceline::sched {
namespace {

bool is_above(const Resources& held, const Resources& bound, const Resources& asked) {
  for (size_t i = 0; i < kMaxResources; ++i)
    if (asked[i] > 0 && held[i] > bound[i]) return true;
  return false;
}

// Without the victim the queue holds less than its quota, or than its share if that is smaller.
bool reaches_below_due(const Queue& queue, const Resources& victim, const Resources& asked) {
  for (size_t i = 0; i < kMaxResources; ++i) {
    const int64_t due = std::min(queue.spec.quota[i], queue.share[i]);
    if (asked[i] > 0 && queue.allocated[i] - victim[i] < due) return true;
  }
  return false;
}

}  // namespace

int64_t ranks_milli_of(const Job& job) {
  if (job.total[kGpu] > 0) return job.total[kGpu];
  int64_t pods = 0;
  for (const PodGroup& group : job.spec.shape.groups) pods += group.pods;
  return pods * kMilli;
}

EvictionTrial::EvictionTrial(const EvictionState& state)
    : state_(state), held_(state.queues.size()) {
  for (const auto& [id, job] : state.jobs) {
    priorities_.insert(job.spec.priority);
    if (!job.placement) continue;
    for (std::optional<size_t> up = job.leaf; up; up = state.queues[*up].parent)
      held_[*up][job.spec.priority] += job.total;
  }
}

Standing EvictionTrial::standing() const {
  size_t depth_count = 0;
  for (size_t i = 0; i < state_.queues.size(); ++i)
    depth_count = std::max(depth_count, state_.queues[i].depth + 1);
  const size_t per_depth = priorities_.size() * kMaxResources;
  Standing within(depth_count * per_depth), all(depth_count * per_depth);
  for (size_t i = 0; i < state_.queues.size(); ++i) {
    Resources held;  // by work of at least the priority
    size_t at = state_.queues[i].depth * per_depth;
    for (const int32_t priority : priorities_) {
      if (const auto found = held_[i].find(priority); found != held_[i].end())
        held += found->second;
      for (size_t resource = 0; resource < kMaxResources; ++resource, ++at) {
        if (!state_.queues.is_counted(resource)) continue;
        within[at] += std::min(held[resource], state_.queues[i].share[resource]);
        all[at] += held[resource];
      }
    }
  }
  within.insert(within.end(), all.begin(), all.end());
  return within;
}

void EvictionTrial::hold(const Job& job) {
  for (std::optional<size_t> up = job.leaf; up; up = state_.queues[*up].parent)
    held_[*up][job.spec.priority] += job.total;
  state_.queues.add_allocated(job.leaf, job.total, job.spec.is_preemptible);
}

void EvictionTrial::let_go(const Job& job) {
  for (std::optional<size_t> up = job.leaf; up; up = state_.queues[*up].parent)
    held_[*up][job.spec.priority] -= job.total;
  state_.queues.add_allocated(job.leaf, Resources() - job.total, job.spec.is_preemptible);
}

bool EvictionTrial::is_within_shares(const Job& job) const {
  for (std::optional<size_t> up = job.leaf; up; up = state_.queues[*up].parent)
    for (size_t i = 0; i < kMaxResources; ++i)
      if (state_.queues.is_counted(i) && job.total[i] > 0 &&
          state_.queues[*up].allocated[i] + job.total[i] > state_.queues[*up].share[i])
        return false;
  return true;
}

EvictionTrial::Siblings EvictionTrial::siblings(size_t leaf, size_t other) const {
  CHECK(leaf != other);
  while (state_.queues[leaf].parent != state_.queues[other].parent) {
    const bool is_deeper = state_.queues[leaf].depth >= state_.queues[other].depth;
    size_t& deeper = is_deeper ? leaf : other;
    CHECK(state_.queues[deeper].parent.has_value());
    deeper = *state_.queues[deeper].parent;
  }
  return {leaf, other};
}

bool EvictionTrial::may_take(const Job& job, const Job& victim, Rights rights) const {
  if (!victim.placement || !victim.spec.is_preemptible) return false;
  if (state_.is_protected.contains(victim.spec.id)) return false;
  if (victim.leaf == job.leaf) return victim.spec.priority < job.spec.priority;
  return rights.is_claimant && may_reclaim(job, victim, rights.protection);
}

bool EvictionTrial::may_reclaim(const Job& job, const Job& victim, Protection protection) const {
  const Siblings pair = siblings(job.leaf, victim.leaf);
  const Queue& ours = state_.queues[pair.claimant];
  const bool stays_in_quota = !is_above(ours.allocated + job.total, ours.spec.quota, job.total);
  if (protection == Protection::MayReachBelow && !stays_in_quota) return false;
  // All the way down: a queue within its due does not pay for what its sister holds beyond.
  bool is_above_shares = true, is_above_quotas = true;
  for (size_t at = victim.leaf;; at = *state_.queues[at].parent) {
    const Queue& theirs = state_.queues[at];
    is_above_shares &= is_above(theirs.allocated, theirs.share, job.total);
    is_above_quotas &= is_above(theirs.allocated, theirs.spec.quota, job.total);
    if (protection == Protection::KeepsQuota && reaches_below_due(theirs, victim.total, job.total))
      return false;
    if (at == pair.victim) break;
  }
  return is_above_shares || (stays_in_quota && is_above_quotas);
}

void EvictionTrial::stop(const Job& job) {
  for (size_t group = 0; group < job.spec.shape.groups.size(); ++group)
    for (const PodPlace& place : job.placement->groups[group])
      state_.fleet.give_back(place, job.spec.shape.groups[group].shape);
  let_go(job);
}

void EvictionTrial::resume(const Job& job) {
  for (size_t group = 0; group < job.spec.shape.groups.size(); ++group)
    for (const PodPlace& place : job.placement->groups[group])
      state_.fleet.occupy(place, job.spec.shape.groups[group].shape);
  hold(job);
}

Standing EvictionTrial::standing_with(const Job& job) {
  hold(job);
  Standing result = standing();
  let_go(job);
  return result;
}

}  // namespace paceline::sched
