// Hijack: makes a thread of another process do something stupid, for faults that no signal can
// make. By ptrace, attached for well under a millisecond. x86-64 only.
#pragma once

#include <sys/types.h>

#include "base/result.h"

namespace paceline::fault {

// The thread waits for ever in read() on a pipe whose writing end is its own and never written.
Status hijack_into_blocked_read(pid_t process, pid_t thread);

// The thread jumps to a jump to itself.
Status hijack_into_spin(pid_t process, pid_t thread);

}  // namespace paceline::fault
