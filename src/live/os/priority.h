// The daemons should run even when every core is taken by the job that they look after.
#pragma once

namespace paceline::os {

// Raises the scheduling priority of this process where that is allowed, and does nothing where not.
// Threads started later inherit it; children are given the old one (SpawnOptions::niceness).
// Returns the niceness before.
int raise_priority();

// The calling thread runs often and briefly: after a wake-up it waits for the time slice of nobody
// who computes. Its share of the processor stays what it is. Nothing where the kernel has no such
// slices (before Linux 6.12).
void prefer_short_slices();

// The calling thread leaves most of a contended core to others, and a fair part of the rest to
// itself. It cannot be taken back. Not less: on a busy host a thread of the lowest priority does
// not run for minutes, and somebody waits for what it does in the end.
void lower_thread_priority();

}  // namespace paceline::os
