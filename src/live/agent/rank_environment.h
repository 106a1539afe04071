// The environment of a rank: torchrun's contract, so that programs written for it run unchanged,
// and the variables by which libpaceline finds its agent (live/wire/rank_ring.h).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/model/host_message.h"

namespace paceline::agent {

using Environment = std::vector<std::pair<std::string, std::string>>;

struct RankPlace {
  DesiredRank rank;
  uint32_t local_world_size = 1;
  std::string address;  // of this host, dotted
  int socket = -1;      // inherited descriptors
  int ring = -1;
};

// `inherited` is the agent's own environment. Later ones win: inherited, the program's, the rank's.
// The secret by which the agent speaks to its controller is left out.
Environment rank_environment(const Environment& inherited, const Program& program,
                             const RankPlace& place);

}  // namespace paceline::agent
