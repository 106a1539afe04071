// What `pace run` does about checkpoints before it starts: it chooses the one that all ranks
// continue from, and tells them where they are kept.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/run_options.h"

namespace paceline::cli {

// Chooses the newest checkpoint if `options` ask to resume, takes V from it, and counts this run
// among those of the directory. Errors are one line: what does not fit, and the remedy.
// REQUIRES: hosts and ranks are complete; the directory is there.
Status choose_checkpoint(RunOptions& options);

// What ranks have to know; empty without a directory.
std::vector<std::pair<std::string, std::string>> checkpoint_environment(const RunOptions& options);

}  // namespace paceline::cli
