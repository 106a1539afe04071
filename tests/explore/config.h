// What a run of the explorer covers: the size of the job and how many faults of each kind may
// happen. Every fault may happen at every moment, or never.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::explore {

inline constexpr size_t kRanks = 4;  // ranks A, B, C; D is a hot spare, a joiner, or absent
inline constexpr size_t kBuckets = 2;
inline constexpr uint32_t kMicroBatches = 4;
inline constexpr size_t kMaxTurns = 4;
inline constexpr uint64_t kSeed = 1;

enum class Plan : uint8_t { None, Rebalance, Leave, Join };

struct Config {
  uint64_t steps = 2;
  uint8_t kills = 0;
  uint8_t freezes = 0;
  uint8_t cuts = 0;
  uint8_t crashes = 0;
  uint8_t links = 0;
  uint8_t duplicates = 0;
  Plan plan = Plan::None;
  bool has_spare = false;
  bool has_overflow = false;  // the first round of step 0 is flagged
  bool is_cold = false;       // begins before the first Prepare instead of inside epoch 1
  bool is_full = false;       // no reduction of the state space

  // Rules that the driver keeps, not the cores; weakened to see that the search would notice.
  bool refuses_newer = false;  // rule 2: newer messages are refused, not kept
  bool rereads_vote = false;   // rule 5: what a vote carries is read when it is delivered

  uint64_t limit = 400'000'000;  // states
};

}  // namespace paceline::explore
