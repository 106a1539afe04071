// What the kernel tells of a process: /proc/PID, read for judging and for evidence.
//
// A process may end while it is read: then fields keep their defaults, and nothing fails.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace paceline::os {

struct ProcessStat {
  bool is_stopped = false;  // every thread is stopped by a signal (state T)
  bool is_traced = false;   // a debugger is attached to at least one thread
  Duration cpu_time;        // user and system, all threads
};

// Cheap (one file) unless the main thread is stopped.
ProcessStat read_process_stat(pid_t process);

// Time for which the thread was ready to run and did not run. Nothing if it is gone.
std::optional<Duration> read_run_queue_delay(pid_t process, pid_t thread);

// One line per thread: name, state, where in the kernel it waits, its system call, its kernel stack
// where that may be read. Bounded in threads and in length.
std::vector<std::string> collect_evidence(pid_t process);

}  // namespace paceline::os
