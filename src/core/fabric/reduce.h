// reduce(): the elementwise combination of n arrays into one, the arithmetic of every collective.
//
// Each element of the result is computed by itself, from the sources in the order in which they are
// given: ((s0 + s1) + s2) + ... So whoever reduces whatever part of a message in whatever pieces
// gets the same bits, provided that the sources come in the order of their ranks. 16-bit floats are
// widened, combined as f32, and rounded once, to nearest, ties to even.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/fabric/element.h"

namespace paceline::fabric {

// How wide the vectors are with which it is done. The result does not depend on it.
enum class VectorSet : uint8_t { Baseline, Avx2, Avx512 };

// The widest that this processor has.
VectorSet best_vector_set();
bool is_supported(VectorSet set);

struct ReduceCall {
  ElementType type = ElementType::F32;
  Reduction reduction = Reduction::Sum;
  std::span<const void* const> sources;  // at least one, each of `count` elements, any alignment
  void* destination = nullptr;           // one of the sources, or overlaps none of them
  size_t count = 0;
};

void reduce(const ReduceCall& call, VectorSet set = best_vector_set());

}  // namespace paceline::fabric
