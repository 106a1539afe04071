// The end of everything that a process has started, however deep and in whatever group or session.
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/time.h"

namespace paceline::cli {

// Those below the calling process that run or are stopped; not those that have ended and wait to
// be reaped. Parents come before their children.
std::vector<pid_t> living_descendants();

// SIGKILL to all of them, again and again until none lives or the limit is over: one that has just
// been born may have been missed. Nothing is reaped. REQUIRES, to reach those whose parent has
// ended: the calling process is a child subreaper. True if none is left.
bool end_descendants(Duration limit);

}  // namespace paceline::cli
