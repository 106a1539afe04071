// StragglerDetector: which rank needs persistently longer for a micro-batch than the others do.
//
// The cost of a micro-batch on a rank is its compute time, without waiting for others, median of
// its last turns. Waiting for a core (run-queue delay) is the symptom of a host and not of a rank,
// but whether it is part of the compute time nobody can tell from outside: a program that computes
// on the processor is late by all of it, one that waits for an accelerator by nothing as long as it
// is awake again in time. So each cost has two readings, `wall` as the clock has it and `own` with
// the delay taken off, and the truth lies between them. A rank is slow when by both readings it is
// at least kSlowPermille above the median of the others, *and* that stands out of the noise of the
// measurement, *and* its lower reading is above the upper one of the others by half of that. It is
// back when both readings say so: where they disagree nothing changes.
//
// Medians over a dozen turns make it persistent: some steps of 20 times the length change nothing,
// and a rank that is 10 % slower is found within 20 steps.
//
// When the turns of all ranks vary widely, each time with another one last, the work itself is
// uneven: that is imbalance, and no rank's fault.
//
// Pure; integers only. Cost of update(): O(n log n) in ranks.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/model/ids.h"
#include "core/model/sample.h"

namespace paceline::recovery {

struct PaceChange {
  RankId rank;
  bool is_slow = false;  // false: it is back at the pace of the others
  int64_t cost_ns = 0;
  int64_t others_ns = 0;
  std::string evidence;
};

class StragglerDetector {
 public:
  // Samples of one rank in the order of their turns.
  void add(RankId rank, const RankSample& sample);
  void forget(RankId rank);
  // What was measured of this rank led to a worse division: not judged slow for so many samples.
  void distrust(RankId rank, uint32_t samples);

  // Judges anew; what has changed since the last call, by rank.
  std::vector<PaceChange> update();

  // What a division of the work should reckon with: slow ranks at their own cost, rounded to 1 %;
  // all others alike, so that noise moves no work. Empty until something is measured.
  std::map<RankId, int64_t> costs_ns() const;
  const std::map<RankId, int64_t>& slow() const { return slow_; }  // with their cost
  // Has it been seen for as many turns as a judgement looks at?
  bool has_measured(RankId rank) const;
  // Set once the work has proved uneven: how far the last rank is behind the median, and why that
  // is nobody's fault.
  std::optional<std::string> take_imbalance();

 private:
  struct Reading {
    int64_t wall = 0;
    int64_t own = 0;
  };
  struct Pace {
    std::deque<Reading> cost_ns;  // per micro-batch, one entry a turn
    std::deque<int64_t> delay_permille;
    Turn newest;
    uint32_t samples = 0;
    uint32_t distrusted = 0;
  };
  struct Summary {
    Reading cost_ns;             // median of the window
    Reading recent_ns;           // median of its newest part
    int64_t noise_permille = 0;  // median deviation, of the cost; the larger of the two readings'
  };

  static Reading median_reading(const std::deque<Reading>& values, size_t count);
  static Summary summary_of(const Pace& pace);
  static int64_t smaller_excess(const Reading& own, const Reading& others);
  static int64_t greater_excess(const Reading& own, const Reading& others);
  static bool is_steadily_above(const Pace& pace, const Reading& others, int64_t permille);
  std::map<RankId, Summary> summarize() const;
  struct Reference {  // what the others are like
    Reading cost_ns;
    int64_t noise_permille = 0;
    Turn newest;
  };
  void judge(RankId rank, const Summary& own, const Reference& others,
             std::vector<PaceChange>& changes);
  void close_turns();

  std::map<RankId, Pace> ranks_;
  std::map<RankId, int64_t> slow_;  // cost: that of the others and the smaller excess
  int64_t usual_ns_ = 0;            // wall cost; median of the ranks that are not slow

  // Imbalance: per turn, who was last and by how much.
  std::map<Turn, std::map<RankId, int64_t>> open_turns_;
  std::deque<std::pair<RankId, int64_t>> last_permille_;
  bool has_told_imbalance_ = false;
};

}  // namespace paceline::recovery
