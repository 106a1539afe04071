// Wide: 128-bit integers, so that products of amounts and weights are exact.
#pragma once

namespace paceline::sched {

// No other form keeps -Wpedantic quiet. NOLINTNEXTLINE(modernize-use-using)
__extension__ typedef __int128 Wide;

}  // namespace paceline::sched
