// RoomMap: how many pods of one shape each node and each domain can take. O(nodes) to make.
#pragma once

#include <cstdint>
#include <vector>

#include "core/sched/fleet.h"

namespace paceline::sched {

// By position: nodes that a search must not use.
using ClosedNodes = std::vector<bool>;

class RoomMap {
 public:
  // `closed` may be null: no node is.
  RoomMap(const Fleet& fleet, const PodShape& shape, const ClosedNodes* closed);

  uint32_t node(size_t position) const { return nodes_[position]; }
  uint64_t domain(DomainId id) const { return domains_[id.value()]; }

  // What the domain or node of the level, inside `inside`, with the most room can take. Domains
  // without a name do not count.
  struct Largest {
    uint64_t room = 0;
    std::string name;
  };
  Largest largest(const Topology& topology, DomainId inside, Level level) const;

 private:
  std::vector<uint32_t> nodes_;
  std::vector<uint64_t> domains_;
};

// The domains of `level` inside `inside` (itself if it is of that level) that have a name, in
// order. REQUIRES: level is not the node's.
std::vector<DomainId> domains_inside(const Topology& topology, DomainId inside, Level level);

}  // namespace paceline::sched
