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

// The tag that travels with a contribution and is summed (mod 2^64) beside the data. Salted, so
// that it differs from the seed.
constexpr uint64_t micro_batch_tag(uint64_t job_seed, Step step, MicroBatch m) {
  return mix64(micro_batch_seed(job_seed, step, m) ^ 0x7461'67ull);
}

// The tag of a complete sum: each of the `micro_batches` exactly once. O(V).
constexpr uint64_t complete_tag(uint64_t job_seed, Step step, uint32_t micro_batches) {
  uint64_t sum = 0;
  for (uint32_t m = 0; m < micro_batches; ++m)
    sum += micro_batch_tag(job_seed, step, MicroBatch(m));
  return sum;
}

}  // namespace paceline
