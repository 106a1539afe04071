// What a fuzz target is: two functions, one per file *_fuzz.cc. The driver (fuzz_driver.cc) joins
// them to libFuzzer.
//
// There is no corpus in the repository. The driver mixes fresh valid inputs into the mutations, so
// a run starts from nothing and still reaches what lies behind the first bytes, and a codec that
// changes takes its seeds along.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/rng.h"

namespace paceline::fuzz {

using Bytes = std::vector<std::byte>;

// A valid input, of any kind that the target reads.
Bytes make_seed(Rng& rng);

// Reads any input at all and CHECKs the target's properties.
void check_input(std::span<const std::byte> input);

template <class Text>
Bytes to_bytes(const Text& text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return Bytes(bytes.begin(), bytes.end());
}

}  // namespace paceline::fuzz
