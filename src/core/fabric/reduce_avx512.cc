// The loops of reduce() for AVX-512 (F, BW, DQ, VL).
#include "core/fabric/reduce_loops.h"

namespace paceline::fabric {

void reduce_avx512(const ReduceArguments& call) { loops::reduce_all<struct Avx512Tag>(call); }

}  // namespace paceline::fabric
