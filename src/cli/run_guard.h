// The guard of a `pace run`: nothing that it has started outlives it, not even after kill -9.
//
//   guard -- launcher -- controller
//                     -- agents -- ranks -- whatever these start
//
// No process can clean up after its own SIGKILL, so there are two that watch each other. Both are
// child subreapers: whoever loses its parent becomes a child of the one that still lives, and is
// ended by it. The guard sees the end of the launcher as its parent, the launcher that of the
// guard as the end of file of a pipe.
#pragma once

#include <functional>

namespace paceline::cli {

// Runs `launch` in a child process and returns its code there too; in the parent, passes signals
// on, waits, ends what is left, and returns the child's code, or 128 + the signal that ended it.
// REQUIRES: no other thread has been started.
int run_guarded(const std::function<int()>& launch);

}  // namespace paceline::cli
