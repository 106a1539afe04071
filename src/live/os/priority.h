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

// The calling thread runs only when a core has nothing better to do. It cannot be taken back: for
// threads that nobody waits for.
void lower_thread_priority();

}  // namespace paceline::os
