// What `pace run` adds to the environment of every rank.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/run_options.h"

namespace paceline::cli {

// Address of a local host: each has its own, so that hosts can be told apart on one machine.
std::string local_address(uint32_t host);

// The job's shape for libpaceline, and a rendezvous for programs that need one: the first host's
// address and a port that is free now. REQUIRES: complete(options) succeeded.
Result<std::vector<std::pair<std::string, std::string>>> environment_of_ranks(
    const RunOptions& options);

}  // namespace paceline::cli
