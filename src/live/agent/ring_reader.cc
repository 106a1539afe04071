#include "live/agent/ring_reader.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <string>

#include "live/wire/memory_label.h"

namespace paceline::agent {
namespace {

Instant instant(int64_t nanoseconds) { return Instant::from_nanoseconds(nanoseconds); }

RankPhase to_phase(uint32_t value) {
  return value <= static_cast<uint32_t>(kLastRankPhase) ? static_cast<RankPhase>(value)
                                                        : RankPhase::Starting;
}

RankSample to_sample(const wire::SampleSlot& slot) {
  return {.turn = Turn(slot.turn),
          .step = Step(slot.step),
          .epoch = EpochNumber(slot.epoch),
          .micro_batches = slot.micro_batches,
          .begun = instant(slot.begun),
          .committed = instant(slot.committed),
          .compute = Duration::nanoseconds(slot.compute),
          .wait = Duration::nanoseconds(slot.wait),
          .longest_compute = Duration::nanoseconds(slot.longest_compute),
          .longest_outside = Duration::nanoseconds(slot.longest_outside),
          .run_queue_delay = Duration::nanoseconds(slot.run_queue_delay),
          .is_flagged = slot.is_flagged != 0};
}

RankMetric to_metric(const wire::MetricSlot& slot, RankId rank) {
  const char* name = slot.name.data();
  return {.rank = rank,
          .step = Step(slot.step),
          .name = std::string(name, ::strnlen(name, slot.name.size())),
          .value = slot.value};
}

// Calls take(slot) for each entry in [*read, written) that is still whole. An entry is whole if its
// slot carries the entry's number before and after it was copied: the writer clears or changes the
// number before it touches the rest.
template <class Slots, class Take>
void read_entries(const Slots& slots, uint64_t written, uint64_t* read, Take take) {
  if (written < *read) return;  // only a broken writer counts down
  *read = std::max(*read, written - std::min<uint64_t>(written, slots.size()));
  for (; *read < written; ++*read) {
    const auto& slot = slots[*read % slots.size()];
    const uint64_t number = *read + 1;
    // Acquire: pairs with the writer's release when the entry was complete.
    if (slot.sequence.load(std::memory_order_acquire) != number) continue;
    take(slot, [&slot, number] {
      // The copy happens before this second look.
      std::atomic_thread_fence(std::memory_order_acquire);
      return slot.sequence.load(std::memory_order_relaxed) == number;
    });
  }
}

}  // namespace

Result<RingReader> RingReader::make(RankId rank) {
  TRY_ASSIGN(os::SharedMemory memory,
             os::SharedMemory::make(wire::kRingLabel, sizeof(wire::RankRing)));
  auto* ring = new (memory.data()) wire::RankRing;  // in place: the memory is the mapping's
  ring->version = wire::kRingVersion;
  ring->size_bytes = sizeof(wire::RankRing);
  os::init_death_bell({ring->bell.mutex, ring->bell.is_armed});
  ring->magic.store(wire::kRingMagic, std::memory_order_release);
  return RingReader(rank, std::move(memory));
}

RankView RingReader::view() const {
  const wire::RankNow& now = ring().now;
  // Relaxed: each field is a measurement by itself, and the next reading is 50 ms away.
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {.rank = rank_,
          .phase = to_phase(now.phase.load(kRelaxed)),
          .phase_since = instant(now.phase_since.load(kRelaxed)),
          .epoch = EpochNumber(now.epoch.load(kRelaxed)),
          .committed = Turn(now.committed.load(kRelaxed)),
          .step = Step(now.step.load(kRelaxed)),
          .begun = now.begun.load(kRelaxed),
          .micro_batch = MicroBatch(now.micro_batch.load(kRelaxed)),
          .micro_batch_seed = now.micro_batch_seed.load(kRelaxed),
          .last_beat = instant(now.last_beat.load(kRelaxed)),
          .cpu_time = {},
          .refused_since = instant(now.refused_since.load(kRelaxed))};
}

std::vector<RankSample> RingReader::take_samples() {
  std::vector<RankSample> samples;
  const uint64_t written = ring().samples_written.load(std::memory_order_acquire);
  read_entries(ring().samples, written, &samples_read_,
               [&](const wire::SampleSlot& slot, auto is_whole) {
                 const RankSample sample = to_sample(slot);
                 if (is_whole()) samples.push_back(sample);
               });
  return samples;
}

std::vector<RankMetric> RingReader::take_metrics() {
  std::vector<RankMetric> metrics;
  const uint64_t written = ring().metrics_written.load(std::memory_order_acquire);
  read_entries(ring().metrics, written, &metrics_read_,
               [&](const wire::MetricSlot& slot, auto is_whole) {
                 RankMetric metric = to_metric(slot, rank_);
                 if (is_whole()) metrics.push_back(std::move(metric));
               });
  return metrics;
}

}  // namespace paceline::agent
