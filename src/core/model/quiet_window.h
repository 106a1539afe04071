// How far apart the windows of an agent may lie while nobody waits for one.
#pragma once

#include "base/time.h"
#include "core/model/host_message.h"

namespace paceline {

// Of a host whose ranks all go on as usual (core/agent/reporting_pace.h); otherwise
// kWindowInterval. Whoever judges by the age of a window must allow for it.
inline constexpr Duration kQuietWindowInterval = Duration::milliseconds(300);
static_assert(kQuietWindowInterval > kWindowInterval);

}  // namespace paceline
