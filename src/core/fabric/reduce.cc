#include "core/fabric/reduce.h"

#include "base/check.h"
#include "core/fabric/reduce_arguments.h"

namespace paceline::fabric {

bool is_supported(VectorSet set) {
#if defined(__x86_64__)
  switch (set) {
    case VectorSet::Baseline:
      return true;
    case VectorSet::Avx2:
      return __builtin_cpu_supports("avx2");
    case VectorSet::Avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
#endif
  return set == VectorSet::Baseline;
}

VectorSet best_vector_set() {
  static const VectorSet best = is_supported(VectorSet::Avx512) ? VectorSet::Avx512
                                : is_supported(VectorSet::Avx2) ? VectorSet::Avx2
                                                                : VectorSet::Baseline;
  return best;
}

void reduce(const ReduceCall& call, VectorSet set) {
  CHECK(!call.sources.empty());
  CHECK(is_supported(set), static_cast<int>(set));
  const ReduceArguments arguments = {.type = call.type,
                                     .reduction = call.reduction,
                                     .sources = call.sources.data(),
                                     .source_count = call.sources.size(),
                                     .destination = call.destination,
                                     .count = call.count};
#if defined(__x86_64__)
  if (set == VectorSet::Avx512) return reduce_avx512(arguments);
  if (set == VectorSet::Avx2) return reduce_avx2(arguments);
#endif
  reduce_baseline(arguments);
}

}  // namespace paceline::fabric
