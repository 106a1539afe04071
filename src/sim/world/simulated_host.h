// SimulatedHost: one agent and its stream to the controller, in virtual time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/agent/agent_core.h"
#include "sim/world/world.h"

namespace paceline::sim {

struct World::SimulatedHost {
  uint32_t index = 0;
  HostId id;
  std::unique_ptr<agent::AgentCore> agent;
  uint64_t agent_life = 0;
  uint64_t stream = 0;  // counts streams; messages of an older one are lost
  bool is_stream_up = false;
  bool is_frozen = false;
  std::vector<std::function<void()>> frozen_actions;

  // At once, or when the host thaws.
  void run(std::function<void()> action) {
    if (is_frozen) {
      frozen_actions.push_back(std::move(action));
    } else {
      action();
    }
  }
};

}  // namespace paceline::sim
