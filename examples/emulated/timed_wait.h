// A wait that stands for computing, as on an accelerator that gets no work while its process is
// stopped (SIGSTOP): such time does not count. Time without a core does, for the accelerator goes
// on.
#pragma once

#include <cstdint>

namespace emulated {

int64_t now_nanoseconds();

// Once per process, by the thread that computes: its waits end on time, and it notices SIGCONT. No
// other thread of the process may take that signal.
void prepare_to_wait();

class TimedWait final {
 public:
  TimedWait() : start_(now_nanoseconds()), seen_(start_) {}

  // Returns when the process has run for so long since this began, and at once if it has already.
  void until(int64_t nanoseconds);

 private:
  void leave_out_stops(int64_t now);

  int64_t start_;  // moved on by each stop
  int64_t seen_;   // known to have run at this time
};

}  // namespace emulated
