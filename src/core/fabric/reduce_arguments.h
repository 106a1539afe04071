// What reduce() passes to the loops of one vector set.
#pragma once

#include <cstddef>

#include "core/fabric/element.h"

namespace paceline::fabric {

// The fields of ReduceCall, plain.
struct ReduceArguments {
  ElementType type;
  Reduction reduction;
  const void* const* sources;
  size_t source_count;
  void* destination;
  size_t count;
};

void reduce_baseline(const ReduceArguments& call);
void reduce_avx2(const ReduceArguments& call);
void reduce_avx512(const ReduceArguments& call);

}  // namespace paceline::fabric
