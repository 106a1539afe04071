// SimulatedHost: one agent and its stream to the controller, in virtual time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/agent/agent_core.h"
#include "sim/kernel/action.h"
#include "sim/world/world.h"

namespace paceline::sim {

struct World::SimulatedHost {
  uint32_t index = 0;
  HostId id;
  std::unique_ptr<agent::AgentCore> agent;
  uint64_t agent_life = 0;
  std::optional<Instant> reading_at;  // its timer for the rings
  uint64_t stream = 0;                // counts streams; messages of an older one are lost
  bool is_stream_up = false;
  bool is_frozen = false;
  std::vector<Action> frozen_actions;
  std::vector<SimulatedRank*> ranks;  // its processes by id; the dead go when the rings are read

  // At once, or when the host thaws.
  template <class Callable>
  void run(Callable action) {
    if (is_frozen) {
      frozen_actions.emplace_back(std::move(action));
    } else {
      action();
    }
  }
};

}  // namespace paceline::sim
