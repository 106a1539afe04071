// The entry points of libFuzzer, the same for every target.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "fuzz/fuzz_target.h"

// libFuzzer's own mutations.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

constexpr uint32_t kFreshPartsPerMillion = 30'000;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paceline::fuzz::check_input(std::as_bytes(std::span(data, size)));
  return 0;
}

// A fresh valid input now and then, which later mutations start from; else libFuzzer's.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  paceline::Rng rng(seed);
  if (size > 1 && !rng.chance_ppm(kFreshPartsPerMillion))
    return LLVMFuzzerMutate(data, size, max_size);
  const paceline::fuzz::Bytes fresh = paceline::fuzz::make_seed(rng);
  const size_t kept = std::min(fresh.size(), max_size);
  if (kept > 0) std::memcpy(data, fresh.data(), kept);
  return kept;
}
