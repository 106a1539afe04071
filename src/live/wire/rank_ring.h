// RankRing: the shared memory of one rank, made by its agent and handed to the process at its
// start.
//
// Written by the rank alone (but for the death bell, which its agent waits on), read by the agent
// at any time and also after the rank's death. Every field that both sides touch is an atomic; a
// sample slot is published by its sequence number. Layout is fixed and versioned: agent and library
// may come from different builds.
//
//   ring := header | death bell | now | sample[kSampleSlots] | metric[kMetricSlots]
//
// Times are CLOCK_MONOTONIC nanoseconds.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace paceline::wire {

inline constexpr uint32_t kRingMagic = 0x50414345;  // "PACE"
inline constexpr uint32_t kRingVersion = 2;
inline constexpr uint32_t kSampleSlots = 256;
inline constexpr uint32_t kMetricSlots = 64;

// Environment by which a rank finds its agent: two inherited descriptors and who it is.
inline constexpr const char* kSocketEnvironment = "PACELINE_SOCKET_FD";
inline constexpr const char* kRingEnvironment = "PACELINE_RING_FD";
inline constexpr const char* kRankEnvironment = "PACELINE_RANK";        // "slot.incarnation"
inline constexpr const char* kTokenEnvironment = "PACELINE_JOB_TOKEN";  // hexadecimal
inline constexpr const char* kJoinerEnvironment = "PACELINE_JOINER";    // "1": heal first
inline constexpr const char* kMicroBatchesEnvironment = "PACELINE_MICRO_BATCHES";
inline constexpr const char* kSeedEnvironment = "PACELINE_SEED";        // of the job; decimal
inline constexpr const char* kReduceEnvironment = "PACELINE_REDUCE";    // "exact" or "fast"
inline constexpr const char* kAddressEnvironment = "PACELINE_ADDRESS";  // dotted IPv4 to listen on

// A robust, process-shared mutex that the library's own thread locks for its whole life: the kernel
// passes it on, and so wakes the agent, when it begins to end that thread, before any memory of the
// process is freed.
struct DeathBell {
  pthread_mutex_t mutex;
  std::atomic<uint32_t> is_armed;  // set once the rank holds the mutex
};

struct RankNow {
  std::atomic<uint64_t> committed;  // turns
  std::atomic<uint64_t> step;
  std::atomic<uint32_t> epoch;
  std::atomic<uint32_t> promised;
  std::atomic<uint32_t> round;
  std::atomic<uint32_t> phase;  // RankPhase
  std::atomic<int64_t> phase_since;
  std::atomic<uint32_t> micro_batch;  // begun last
  std::atomic<uint64_t> micro_batch_seed;
  std::atomic<uint32_t> begun;     // micro-batches begun in this turn
  std::atomic<uint32_t> reducing;  // buckets sent and not yet reduced; != 0 is "reduce"
  std::atomic<uint32_t> has_voted;
  std::atomic<int64_t> last_beat;      // of the library's own thread, every kBeatInterval at least
  std::atomic<uint32_t> main_thread;   // kernel thread id of the training thread
  std::atomic<int64_t> refused_since;  // the program's calls are out of order; 0: they are not
};

struct SampleSlot {
  std::atomic<uint64_t> sequence;  // n + 1 once sample n is complete in slot n mod kSampleSlots
  uint64_t turn, step;
  uint32_t epoch, micro_batches;
  int64_t begun, committed, compute, wait, longest_compute, longest_outside, run_queue_delay;
  uint32_t is_flagged;
};

struct MetricSlot {
  std::atomic<uint64_t> sequence;
  uint64_t step;
  double value;
  std::array<char, 40> name;
};

struct RankRing {
  std::atomic<uint32_t> magic;
  uint32_t version;
  uint32_t size_bytes;
  alignas(64) DeathBell bell;
  alignas(64) RankNow now;
  alignas(64) std::atomic<uint64_t> samples_written;
  std::array<SampleSlot, kSampleSlots> samples;
  alignas(64) std::atomic<uint64_t> metrics_written;
  std::array<MetricSlot, kMetricSlots> metrics;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<int64_t>::is_always_lock_free);

inline constexpr int64_t kBeatIntervalNanoseconds = 50'000'000;

}  // namespace paceline::wire
