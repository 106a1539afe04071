// mix64 and Digest: deterministic 64-bit hashing of integers, the same on every machine.
//
// Not cryptographic. For digests of states and traces, for the seeds and tags of micro-batches.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

namespace paceline {

// The finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection with full avalanche.
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// Order-sensitive digest of a sequence of integers.
class Digest {
 public:
  template <std::integral T>
  constexpr Digest& add(T value) {
    state_ = mix64(state_ ^ static_cast<uint64_t>(value));
    return *this;
  }
  constexpr Digest& add(std::string_view text) {
    add(text.size());
    for (const char c : text) add(static_cast<unsigned char>(c));
    return *this;
  }
  constexpr uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0x7061'6365'6c69'6e65ull;
};

}  // namespace paceline
