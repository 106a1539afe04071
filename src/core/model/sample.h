// What is measured of a rank: its phase now, and one sample per committed turn. Written by the rank
// into its shared ring, windowed by its agent, judged by core/recovery.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "core/model/ids.h"

namespace paceline {

// What a rank is doing. The numbers are part of the ring's layout.
enum class RankPhase : uint8_t {
  Starting = 0,  // before its first begin_step
  Heal = 1,      // waiting for or applying another rank's state
  Compute = 2,   // a micro-batch has been begun and is not yet in every bucket
  Outside = 3,   // in the program's own code: between micro-batches, in the update, between steps
  Wait = 4,      // in finish_step or in a barrier: it waits for others
  Prepare = 5,   // between a Prepare and its decision
  Done = 6,      // in finalize
  Trial = 7,     // a joiner: in the program's code, with a micro-batch that its donor has computed
};
inline constexpr RankPhase kLastRankPhase = RankPhase::Trial;

struct RankSample {
  Turn turn;
  Step step;
  EpochNumber epoch;
  uint32_t micro_batches = 0;  // held at the commit
  Instant begun;               // begin_step of the turn
  Instant committed;
  Duration compute;          // between beginning a micro-batch and its last accumulate
  Duration wait;             // blocked in finish_step, and in barriers before the step
  Duration longest_compute;  // of one micro-batch
  Duration longest_outside;  // longest stay in the program's own code, outside micro-batches
  Duration run_queue_delay;  // ready to run but not running, training thread (schedstat)
  bool is_flagged = false;
  bool operator==(const RankSample&) const = default;
};

// A rank as its agent sees it at one moment.
struct RankView {
  RankId rank;
  RankPhase phase = RankPhase::Starting;
  Instant phase_since;
  EpochNumber epoch;
  Turn committed;
  Step step;
  uint32_t begun = 0;      // micro-batches, since `committed`
  MicroBatch micro_batch;  // in Compute and Trial
  uint64_t micro_batch_seed = 0;
  Instant last_beat;        // of the library's own thread
  bool is_stopped = false;  // all threads stopped by a signal (state T)
  bool is_traced = false;   // under a debugger (state t)
  Duration cpu_time;        // of the whole process, so far
  // Its last call was out of order and the library has refused it, first at this time: a
  // contribution is missing, or a call was left out. Zero if its last call was in order.
  Instant refused_since;
  bool operator==(const RankView&) const = default;
};

}  // namespace paceline
