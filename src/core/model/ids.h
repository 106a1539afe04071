// The names of things. Each is a type of its own; see design section 5 for the words.
#pragma once

#include <compare>
#include <cstdint>
#include <ostream>
#include <string>

#include "base/strong_id.h"

namespace paceline {

using HostId = StrongId<struct HostTag, uint32_t>;
// The place of a rank in its job; what a user calls "rank 3".
using SlotId = StrongId<struct SlotTag, uint32_t>;
// Numbers the processes of one slot, from 1; never used again.
using Incarnation = StrongId<struct IncarnationTag, uint32_t>;
// One membership of a job. From one counter, strictly increasing; 0 is "in no epoch yet".
using EpochNumber = StrongId<struct EpochTag, uint32_t>;
// One optimizer update.
using Step = StrongId<struct StepTag, uint64_t>;
// One attempt at a step that is voted on and committed: the pair (step, round) as one counter. A
// step whose round was flagged (overflow) takes one turn more; everything else that the protocol
// says of steps holds for turns. Turn n is the one that follows n commits.
using Turn = StrongId<struct TurnTag, uint64_t>;
using MicroBatch = StrongId<struct MicroBatchTag, uint32_t>;
using BucketId = StrongId<struct BucketTag, uint32_t>;

// One worker process of a job.
struct RankId {
  SlotId slot;
  Incarnation incarnation;
  auto operator<=>(const RankId&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const RankId& rank) {
    return out << "rank " << rank.slot << "." << rank.incarnation;
  }
};

// Bounds of everything that is sized by input.
inline constexpr uint32_t kMaxRanks = 4096;
inline constexpr uint32_t kMaxMicroBatches = 65536;
inline constexpr uint32_t kMaxBuckets = 1024;

}  // namespace paceline
