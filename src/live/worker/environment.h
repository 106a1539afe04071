// How a rank finds out who it is: the environment that its agent gives it (live/wire/rank_ring.h).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "live/worker/session.h"

namespace paceline::worker {

// The value of a variable, or nothing.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

// Options from the environment; without an agent in it, those of a job of one rank. Takes the
// descriptors that it names.
Result<SessionOptions> options_from(const Lookup& lookup);

// The environment of this process.
std::optional<std::string> process_environment(const char* name);

}  // namespace paceline::worker
