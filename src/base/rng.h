// Rng: a seeded generator (xoshiro256**, Blackman and Vigna 2018). Same seed, same sequence, on
// every machine. There is no default seed: randomness in core is always a parameter.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/check.h"
#include "base/hash.h"

namespace paceline {

class Rng {
 public:
  explicit Rng(uint64_t seed) {
    for (uint64_t& word : state_) word = seed = mix64(seed);
  }

  uint64_t next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, bound). The modulo bias is below bound / 2^64.
  uint64_t below(uint64_t bound) {
    CHECK(bound > 0);
    return next() % bound;
  }
  // Uniform in [low, high], both included.
  int64_t between(int64_t low, int64_t high) {
    CHECK(low <= high, low, " ", high);
    return low + static_cast<int64_t>(below(static_cast<uint64_t>(high - low) + 1));
  }
  // True with probability parts_per_million / 10^6.
  bool chance_ppm(uint32_t parts_per_million) { return below(1'000'000) < parts_per_million; }
  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  std::array<uint64_t, 4> state_{};
};

}  // namespace paceline
