// What the planner expects: when jobs end, when one that waits starts, and what would become of a
// new one.
#include <algorithm>

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

std::vector<ExpectedEnd> Planner::expected_ends(Instant now) const {
  std::vector<ExpectedEnd> ends;
  for (const auto& [id, job] : jobs_) {
    if (!job.placement) continue;
    if (const auto end = expected_end(job, now))
      ends.push_back(ExpectedEnd{*end, id, &job.spec.shape, &*job.placement});
  }
  std::sort(ends.begin(), ends.end(), [](const ExpectedEnd& a, const ExpectedEnd& b) {
    return std::pair(a.time, a.job) < std::pair(b.time, b.job);
  });
  return ends;
}

std::optional<Instant> Planner::estimated_start(JobId id, Instant now, SearchBudget& budget) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.placement || found->second.never) return std::nullopt;
  const Job& job = found->second;
  if (queues_.breach(job.leaf, job.total, job.spec.is_preemptible)) return std::nullopt;
  Fleet fleet = fleet_;
  if (Placer(fleet, budget, nullptr).find(job.spec.shape)) return now;
  const auto reservation =
      reserve(Waiting{id, job.spec.shape, nullptr}, expected_ends(now), fleet, budget);
  return reservation ? std::optional(reservation->time) : std::nullopt;
}

Result<Forecast> Planner::what_if(const JobSpec& job, Instant now, SearchBudget& budget) const {
  Planner copy = *this;
  TRY(copy.apply(JobSubmitted{job}));
  Plan plan = copy.plan(now, budget);
  Forecast forecast;
  for (Eviction& eviction : plan.evictions)
    if (eviction.beneficiary == job.id) forecast.evictions.push_back(std::move(eviction));
  forecast.placement = copy.jobs_.at(job.id).placement;
  if (forecast.placement) return forecast;
  forecast.verdict = copy.explain(job.id);
  forecast.estimated_start = copy.estimated_start(job.id, now, budget);
  return forecast;
}

}  // namespace paceline::sched
