// The daemons should run even when every core is taken by the job that they look after.
#pragma once

namespace paceline::os {

// Raises the scheduling priority of this process where that is allowed, and does nothing where not.
// Threads started later inherit it; children are given the old one (SpawnOptions::niceness).
// Returns the niceness before.
int raise_priority();

}  // namespace paceline::os
