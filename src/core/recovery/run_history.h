// RunHistory: what this run has shown so far: how long a step takes, and how long the program has
// ever stayed in a phase and come back. Limits are learned from it instead of being configured.
//
// Pure; lengths of time only, so samples of hosts with different clocks may be mixed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "core/model/sample.h"

namespace paceline::recovery {

class RunHistory {
 public:
  // Steps that the median is taken of.
  static constexpr size_t kSteps = 64;

  // Samples of one rank in the order of their turns.
  void add(RankId rank, const RankSample& sample);
  void forget(RankId rank) { ranks_.erase(rank); }

  // Time from commit to commit: median of the last kSteps turns; nothing before the second commit.
  std::optional<Duration> median_step() const { return median_step_; }
  // The same of the last `count` turns that are complete. Nothing if there are fewer.
  std::optional<Duration> median_of_last(size_t count) const;
  // Median deviation of them; zero if there are fewer.
  Duration deviation_of_last(size_t count) const;
  // The longest stay of any rank that ended by itself. Only Compute and Outside are known.
  Duration longest(RankPhase phase) const;
  uint64_t turns() const { return turns_; }
  uint64_t turns_of(RankId rank) const;

 private:
  struct Last {
    Turn turn;
    Instant committed;
    uint64_t count = 0;
  };

  std::map<RankId, Last> ranks_;
  std::deque<int64_t> step_ns_;
  std::optional<Duration> median_step_;
  Duration longest_compute_, longest_outside_;
  std::optional<Turn> newest_;
  uint64_t turns_ = 0;
};

}  // namespace paceline::recovery
