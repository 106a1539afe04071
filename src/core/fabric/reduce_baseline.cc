// The loops of reduce() for what every processor of the architecture has.
#include "core/fabric/reduce_loops.h"

namespace paceline::fabric {

void reduce_baseline(const ReduceArguments& call) { loops::reduce_all<struct BaselineTag>(call); }

}  // namespace paceline::fabric
