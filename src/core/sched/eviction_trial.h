// EvictionTrial: jobs stopped and resumed in a trial, and who has which right meanwhile. The rules
// are in eviction.h. Whoever stops a job here resumes it; then fleet and queues are as before.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "core/sched/eviction.h"

namespace paceline::sched {

enum class Protection : uint8_t { KeepsQuota, MayReachBelow };

struct Rights {
  bool is_claimant = false;  // stays within its shares: may take from other queues
  Protection protection = Protection::KeepsQuota;
};

// What a state is worth: see eviction.h. Compared in lexicographic order.
using Standing = std::vector<int64_t>;

// Ranks in thousandths: GPUs, or pods of a job that has none.
int64_t ranks_milli_of(const Job& job);

class EvictionTrial {
 public:
  explicit EvictionTrial(const EvictionState& state);

  const std::map<JobId, Job>& jobs() const { return state_.jobs; }

  // With the job every queue above it holds at most its share of what the job asks for.
  bool is_within_shares(const Job& job) const;
  bool may_take(const Job& job, const Job& victim, Rights rights) const;

  void stop(const Job& job);
  void resume(const Job& job);
  Standing standing() const;
  // As if the job, for which there is a place, had started.
  Standing standing_with(const Job& job);

 private:
  // Of two leaves the ancestors just below the lowest common one.
  struct Siblings {
    size_t claimant = 0, victim = 0;
  };

  bool may_reclaim(const Job& job, const Job& victim, Protection protection) const;
  Siblings siblings(size_t leaf, size_t other) const;
  // Counts the job as running, or not any more.
  void hold(const Job& job);
  void let_go(const Job& job);

  EvictionState state_;
  std::set<int32_t, std::greater<>> priorities_;                    // of all jobs
  std::vector<std::map<int32_t, Resources, std::greater<>>> held_;  // by queue index and priority
};

}  // namespace paceline::sched
