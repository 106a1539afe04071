#include "emulated/gradient.h"

#include <algorithm>
#include <array>

namespace emulated {
namespace {

constexpr size_t kTileElements = 1024;

}  // namespace

uint64_t Random::next() {
  uint64_t x = state_ += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

void fill_gradient(Random& random, std::span<float> gradient) {
  std::array<float, kTileElements> fresh;
  for (float& value : fresh) value = static_cast<float>(random.uniform() - 0.5);
  for (size_t begin = 0; begin < gradient.size(); begin += kTileElements) {
    // 61 factors in (0, 1], so that neighbouring blocks differ in magnitude.
    const float factor = static_cast<float>(begin / kTileElements % 61 + 1) / 61.0F;
    const size_t count = std::min(kTileElements, gradient.size() - begin);
    for (size_t i = 0; i < count; ++i) gradient[begin + i] = fresh[i] * factor;
  }
}

}  // namespace emulated
