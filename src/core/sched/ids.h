// Names of what the scheduler knows. Each is a type of its own.
#pragma once

#include <cstdint>

#include "core/model/ids.h"

namespace paceline::sched {

// What schedulers call a node is a host with an agent.
using NodeId = HostId;
using JobId = StrongId<struct JobTag, uint64_t>;
using QueueId = StrongId<struct QueueTag, uint32_t>;
// A domain of the topology tree. Domain 0 is the whole cluster.
using DomainId = StrongId<struct DomainTag, uint32_t>;
// A level of the topology tree: 0 is the cluster, 1 the coarsest named one, the last the node.
using Level = StrongId<struct LevelTag, uint8_t>;
// Nodes alike in all that does not change while they run.
using NodeClassId = StrongId<struct NodeClassTag, uint16_t>;

}  // namespace paceline::sched
