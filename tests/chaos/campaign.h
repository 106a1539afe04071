// Many seeds on a few threads: how far it is, what it found, and the record of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "options.h"
#include "seed_run.h"

namespace paceline::sim {

struct CampaignResult {
  std::vector<SeedResult> seeds;  // ascending
  double wall_s = 0;
  std::string started;  // UTC
  double load_before = 0, load_after = 0;

  uint64_t total(uint64_t SeedResult::*field) const;
  uint64_t failed() const;
  uint64_t lost_all() const;
  // Of all runs, in whatever order they came.
  uint64_t digest() const;
};

// Prints each failed seed when it is found, and every ten seconds how far it is.
CampaignResult run_campaign(const Options& options);

// JSON, with the machine and its load.
Status write_result(const Options& options, const CampaignResult& result);

}  // namespace paceline::sim
