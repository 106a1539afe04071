// What is simulated, and how often: the flags of chaos.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace paceline::sim {

struct Options {
  std::string set = "own";  // of flags: hours, days, or whatever was said
  std::string out;          // file of the result; none if empty
  uint64_t first_seed = 1;
  uint64_t seeds = 20;
  uint64_t threads = 1;
  uint64_t hosts = 4, spares = 1, ranks = 2, steps = 400, step_ms = 50, micro_batches = 64;
  uint64_t fault_every_ms = 2000;
  uint64_t stop_after_s =
      0;                    // of virtual time: stopped in order, if its steps last longer; 0: never
  uint64_t limit_s = 7200;  // of virtual time: who has not ended by then has failed
  uint64_t twice = 0;       // each seed, with equal digests
  uint64_t story = 0;       // prints what a watcher of the job would see
};

Result<Options> parse(int argc, const char* const* argv);

}  // namespace paceline::sim
