// The loops of reduce() for AVX2.
#include "core/fabric/reduce_loops.h"

namespace paceline::fabric {

void reduce_avx2(const ReduceArguments& call) { loops::reduce_all<struct Avx2Tag>(call); }

}  // namespace paceline::fabric
