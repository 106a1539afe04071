// VictimSearch: the set of victims that makes room for one job and loses least.
//
// Scopes are looked at one by one: single nodes, then domains level by level up to the one that the
// job requires. In each only jobs with a pod inside are considered. Up to kExact of them: every
// set, with the cheapest known harm as a bound, so the answer is exact. More: greedily in three
// orders (harm per rank, harm, priority then harm per rank) until the job fits; then, the costliest
// first, what is not needed is given back; the best of the three counts. Equal harm: the finer
// scope, then the lower number.
//
// A job of one group fits a scope if the rooms of its nodes add up to its pods. For several groups
// the Placer is asked, for the whole cluster. The budget counts the nodes that are looked at.
#pragma once

#include <optional>
#include <vector>

#include "core/sched/eviction_trial.h"

namespace paceline::sched {

class VictimSearch {
 public:
  static constexpr size_t kExact = 10;

  // All are borrowed for the search's life.
  VictimSearch(EvictionTrial& trial, Fleet& fleet, const Job& job, Rights rights,
               SearchBudget& budget);

  std::optional<EvictionChoice> run(Instant now);

 private:
  struct Candidate {
    const Job* job;
    int64_t harm = 0;
  };
  using Candidates = std::vector<const Candidate*>;
  struct Scope {
    size_t first_node = 0, end_node = 0;
    Candidates inside = {};
  };

  std::vector<Candidate> candidates(Instant now) const;
  std::vector<Scope> scopes_at(Level level, const std::vector<Candidate>& all) const;
  void search(const Scope& scope);
  void search_exactly(const Scope& scope, size_t next, int64_t harm, bool is_changed);
  void search_greedily(const Scope& scope, Candidates order);
  bool fits(const Scope& scope);
  void stop(const Candidate& candidate);
  void resume_last();
  void accept(int64_t harm);
  std::optional<EvictionChoice> choice_of_best();

  EvictionTrial& trial_;
  Fleet& fleet_;
  const Job& job_;
  Rights rights_;
  SearchBudget& budget_;
  std::vector<bool> is_eligible_;  // by class of nodes, for a job of one group
  Standing before_;
  Candidates stopped_;
  std::optional<int64_t> best_harm_;
  Candidates best_;
};

}  // namespace paceline::sched
