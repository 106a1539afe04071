// One seed: a simulated job under the faults that the seed draws, and what is wrong with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "options.h"

namespace paceline::sim {

struct SeedResult {
  uint64_t seed = 0;
  std::string problem;        // empty: every property held, and the job came to its end
  bool has_lost_all = false;  // ended early: no rank was left to go on with
  uint64_t faults = 0, incidents = 0, events = 0;
  uint64_t digest = 0;
};

// Adds to `simulated_s` as virtual time passes.
SeedResult run_seed(const Options& options, uint64_t seed, std::atomic<uint64_t>& simulated_s);

}  // namespace paceline::sim
