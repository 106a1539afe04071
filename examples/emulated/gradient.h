// Numbers that stand for a gradient: a function of the micro-batch's seed, cheap enough (some tens
// of microseconds per MB) not to disturb the timed wait that stands for computing them.
#pragma once

#include <cstdint>
#include <span>

namespace emulated {

// splitmix64: a sequence of 64-bit numbers from a seed.
class Random final {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  // Uniform in [0, 1).
  double uniform();

 private:
  uint64_t state_;
};

// 4 KB of fresh numbers in [-0.5, 0.5), repeated with factors that differ from tile to tile.
void fill_gradient(Random& random, std::span<float> gradient);

}  // namespace emulated
