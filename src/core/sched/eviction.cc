#include "core/sched/eviction.h"

#include "base/str.h"
#include "core/sched/victim_search.h"
#include "core/sched/wide.h"

namespace paceline::sched {

int64_t harm_of(const Job& job, Instant now) {
  const Duration ran = now - job.started;
  Duration lost = ran;  // without checkpoints everything
  if (const auto every = job.spec.stop.checkpoint_every; every && *every > Duration())
    lost = Duration::nanoseconds(ran.in_nanoseconds() % every->in_nanoseconds());
  const Duration all = lost + job.spec.stop.restart;
  return static_cast<int64_t>(Wide{ranks_milli_of(job)} * all.in_milliseconds() / kMilli);
}

std::string eviction_reason(const Job& beneficiary, const Job& victim, const QueueTree& queues,
                            const EvictionChoice& choice) {
  if (beneficiary.leaf == victim.leaf)
    return str("priority ", victim.spec.priority, " yields to priority ", beneficiary.spec.priority,
               " of ", beneficiary.spec.name);
  const Queue& theirs = queues[victim.leaf];
  const Queue& ours = queues[beneficiary.leaf];
  return str(
      "queue ", theirs.spec.name, " holds ", theirs.allocated[kGpu], " of its share of ",
      theirs.share[kGpu], " thousandths of GPUs; with ", beneficiary.spec.name, " queue ",
      ours.spec.name, " holds ", ours.allocated[kGpu] + beneficiary.total[kGpu], " of ",
      ours.share[kGpu],
      choice.reaches_below_quota ? "; what it holds beyond its quota cannot be freed alone" : "");
}

std::optional<EvictionChoice> choose_victims(const EvictionState& state, const Job& job,
                                             Instant now, SearchBudget& budget) {
  EvictionTrial trial(state);
  Rights rights{.is_claimant = trial.is_within_shares(job)};
  auto choice = VictimSearch(trial, state.fleet, job, rights, budget).run(now);
  if (choice || budget.is_spent() || !rights.is_claimant) return choice;
  rights.protection = Protection::MayReachBelow;
  choice = VictimSearch(trial, state.fleet, job, rights, budget).run(now);
  if (choice) choice->reaches_below_quota = true;
  return choice;
}

}  // namespace paceline::sched
