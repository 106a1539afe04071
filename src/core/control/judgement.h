// Judgement: what the controller holds to judge its ranks by: the detectors, what they have found
// that is not over, and the division of work that follows from it. Plain data; the rules are in
// controller_judgement.cc.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "core/model/job.h"
#include "core/recovery/hang_detector.h"
#include "core/recovery/robust.h"
#include "core/recovery/run_history.h"
#include "core/recovery/straggler_detector.h"

namespace paceline::control {

// Names of detectors, as scopes of a recovery mode.
inline constexpr const char* kHangScope = "hang";
inline constexpr const char* kStragglerScope = "straggler";

// The newest durations of one kind.
class Measured {
 public:
  void add(Duration duration) {
    newest_.push_back(duration.in_nanoseconds());
    if (newest_.size() > kMost) newest_.pop_front();
  }
  std::optional<Duration> median() const {
    if (newest_.empty()) return std::nullopt;
    return Duration::nanoseconds(recovery::median_of({newest_.begin(), newest_.end()}));
  }

 private:
  static constexpr size_t kMost = 16;
  std::deque<int64_t> newest_;
};

struct Judgement {
  recovery::RunHistory history;
  recovery::HangDetector hangs;
  recovery::StragglerDetector stragglers;
  std::map<std::string, RecoveryMode> modes;  // of detectors that have their own

  std::optional<Instant> last_at;    // judged last
  std::set<RankId> measured;         // ranks that history and stragglers know
  std::optional<uint64_t> turnover;  // of the roster, when those that are gone were last forgotten
  Turn judged_pace_at;

  // Open incidents that nothing is done about.
  std::map<RankId, uint32_t> observed_hangs;
  std::map<RankId, uint32_t> slow_incidents;  // of ranks that are slow now
  std::set<RankId> slow_earlier;  // of these: by an earlier life, and not yet measured by this one
  std::optional<Instant> reformed_at;  // when all were last found to wait for ever

  // The division by pace.
  std::set<RankId> relieved;            // slow ranks that stand by in exchange for a spare
  std::optional<uint64_t> decided_for;  // digest of what the last choice was about
  std::optional<Turn> rebalanced_at;
  std::set<RankId> rebalanced_for;  // the ranks that were slow then
  uint32_t distrust_samples = 100;  // doubled with each division that did not help
  struct Check {                    // of a rebalance that is under way or just in force
    std::set<RankId> ranks;
    Duration step_before;
    std::optional<EpochNumber> epoch;  // once it is announced
    std::optional<Turn> in_force_at;
  };
  std::optional<Check> check;

  // What a loss costs is reckoned from these.
  Measured launches;         // of processes, from the order to their hello
  Measured heals;            // from the order until they are level
  Measured absences;         // of lost hosts
  uint64_t state_bytes = 0;  // what a heal moves; 0: not known
};

}  // namespace paceline::control
