// The seed and the tag of a micro-batch: functions of (job seed, step, index) alone, so that its
// work and its mark are the same whoever computes it, and when.
#pragma once

#include <cstdint>

#include "base/hash.h"
#include "core/model/ids.h"

namespace paceline {

constexpr uint64_t micro_batch_seed(uint64_t job_seed, Step step, MicroBatch m) {
  return mix64(mix64(mix64(job_seed) ^ step.value()) ^ m.value());
}

// The tag that travels with a contribution and is summed (mod 2^64) beside the data:
//
//   tag(step, m) = factor(step) * weight(m)
//
// The factor is odd, so multiplying by it loses nothing: two sets of micro-batches of one step have
// equal tags only if their weights have equal sums. Salted, so that neither is a seed.
constexpr uint64_t step_factor(uint64_t job_seed, Step step) {
  return mix64(mix64(job_seed ^ 0x7461'67ull) ^ step.value()) | 1;
}
constexpr uint64_t micro_batch_weight(uint64_t job_seed, MicroBatch m) {
  return mix64(mix64(job_seed ^ 0x7765'6967'6874ull) ^ m.value());
}
constexpr uint64_t micro_batch_tag(uint64_t job_seed, Step step, MicroBatch m) {
  return step_factor(job_seed, step) * micro_batch_weight(job_seed, m);
}

// The tags of complete sums: each of the `micro_batches` exactly once. Made in O(V), asked in O(1).
class CompleteTags {
 public:
  constexpr CompleteTags() = default;
  constexpr CompleteTags(uint64_t job_seed, uint32_t micro_batches) : job_seed_(job_seed) {
    for (uint32_t m = 0; m < micro_batches; ++m)
      weight_ += micro_batch_weight(job_seed, MicroBatch(m));
  }
  constexpr uint64_t of(Step step) const { return step_factor(job_seed_, step) * weight_; }

 private:
  uint64_t job_seed_ = 0;
  uint64_t weight_ = 0;
};

constexpr uint64_t complete_tag(uint64_t job_seed, Step step, uint32_t micro_batches) {
  return CompleteTags(job_seed, micro_batches).of(step);
}

}  // namespace paceline
