#include "live/worker/ring_writer.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/str.h"

namespace paceline::worker {

Result<RingWriter> RingWriter::map(os::Descriptor ring) {
  struct stat status {};
  if (::fstat(ring.get(), &status) != 0 ||
      static_cast<size_t>(status.st_size) < sizeof(wire::RankRing))
    return Failure{ErrorCode::InvalidArgument, "the shared ring is missing or too small"};
  void* data =
      ::mmap(nullptr, sizeof(wire::RankRing), PROT_READ | PROT_WRITE, MAP_SHARED, ring.get(), 0);
  if (data == MAP_FAILED)
    return Failure{ErrorCode::Io, str("mapping the shared ring: ", std::strerror(errno))};
  auto* mapped = static_cast<wire::RankRing*>(data);
  if (mapped->magic.load() != wire::kRingMagic || mapped->version != wire::kRingVersion) {
    ::munmap(data, sizeof(wire::RankRing));
    return Failure{ErrorCode::InvalidArgument, "the agent's ring has another version"};
  }
  return RingWriter(mapped);
}

RingWriter RingWriter::make_private() { return RingWriter(); }

RingWriter::RingWriter(RingWriter&& other) noexcept
    : private_(std::move(other.private_)),
      ring_(std::exchange(other.ring_, nullptr)),
      is_mapped_(other.is_mapped_),
      is_armed_(other.is_armed_) {}

RingWriter::~RingWriter() {
  if (is_mapped_ && ring_ != nullptr) ::munmap(ring_, sizeof(wire::RankRing));
}

// A reader that sees sequence n + 1 in the slot before and after its copy has a whole sample n: the
// slot says 0 while it is written.
void RingWriter::add_sample(const RankSample& sample) {
  const uint64_t number = ring_->samples_written.load(std::memory_order_relaxed);
  wire::SampleSlot& slot = ring_->samples[number % wire::kSampleSlots];
  slot.sequence.exchange(0);  // not a store: what follows must not be seen before the 0
  slot.turn = sample.turn.value();
  slot.step = sample.step.value();
  slot.epoch = sample.epoch.value();
  slot.micro_batches = sample.micro_batches;
  slot.begun = sample.begun.in_nanoseconds();
  slot.committed = sample.committed.in_nanoseconds();
  slot.compute = sample.compute.in_nanoseconds();
  slot.wait = sample.wait.in_nanoseconds();
  slot.longest_compute = sample.longest_compute.in_nanoseconds();
  slot.longest_outside = sample.longest_outside.in_nanoseconds();
  slot.run_queue_delay = sample.run_queue_delay.in_nanoseconds();
  slot.is_flagged = sample.is_flagged ? 1 : 0;
  slot.sequence.store(number + 1, std::memory_order_release);
  ring_->samples_written.store(number + 1, std::memory_order_release);
}

void RingWriter::add_metric(Step step, std::string_view name, double value) {
  const uint64_t number = ring_->metrics_written.load(std::memory_order_relaxed);
  wire::MetricSlot& slot = ring_->metrics[number % wire::kMetricSlots];
  slot.sequence.exchange(0);
  slot.step = step.value();
  slot.value = value;
  slot.name.fill('\0');
  const size_t size = std::min(name.size(), slot.name.size() - 1);
  std::copy_n(name.begin(), size, slot.name.begin());
  slot.sequence.store(number + 1, std::memory_order_release);
  ring_->metrics_written.store(number + 1, std::memory_order_release);
}

void RingWriter::arm_bell() {
  if (!is_mapped_) return;
  const int result = ::pthread_mutex_lock(&ring_->bell.mutex);
  if (result == EOWNERDEAD) ::pthread_mutex_consistent(&ring_->bell.mutex);
  is_armed_ = result == 0 || result == EOWNERDEAD;
  // Release: whoever sees the flag finds the mutex locked.
  if (is_armed_) ring_->bell.is_armed.store(1, std::memory_order_release);
}

void RingWriter::disarm_bell() {
  if (std::exchange(is_armed_, false)) ::pthread_mutex_unlock(&ring_->bell.mutex);
}

}  // namespace paceline::worker
