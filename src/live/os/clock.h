// The daemons' clock: CLOCK_MONOTONIC, the same for all processes of one machine.
#pragma once

#include "base/time.h"

namespace paceline::os {

Instant now();

}  // namespace paceline::os
