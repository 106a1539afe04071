#include "core/sched/room_map.h"

#include "base/check.h"

namespace paceline::sched {

RoomMap::RoomMap(const Fleet& fleet, const PodShape& shape, const ClosedNodes* closed) {
  const Topology& topology = fleet.topology();
  std::vector<bool> is_eligible;
  for (const NodeClass& kind : topology.classes()) is_eligible.push_back(shape.matches(kind));
  nodes_.resize(topology.node_count());
  domains_.resize(topology.domains().size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = topology.node(i);
    if (!is_eligible[node.kind.value()] || (closed != nullptr && (*closed)[i])) continue;
    nodes_[i] = fleet.room_for(i, shape);
    for (const DomainId domain : node.domains) domains_[domain.value()] += nodes_[i];
  }
}

RoomMap::Largest RoomMap::largest(const Topology& topology, DomainId inside, Level level) const {
  Largest best;
  const auto consider = [&best](uint64_t room, const std::string& name) {
    if (best.name.empty() || room > best.room) best = Largest{room, name};
  };
  if (level == topology.node_level()) {
    const Domain& domain = topology.domain(inside);
    for (size_t i = domain.first_node; i < domain.end_node; ++i)
      consider(nodes_[i], topology.node(i).name);
  } else {
    for (const DomainId id : domains_inside(topology, inside, level))
      consider(domain(id), topology.domain(id).name);
  }
  return best;
}

std::vector<DomainId> domains_inside(const Topology& topology, DomainId inside, Level level) {
  CHECK(level < topology.node_level() && level >= topology.domain(inside).level);
  std::vector<DomainId> current = {inside};
  while (topology.domain(current.front()).level < level) {
    std::vector<DomainId> finer;
    for (const DomainId id : current)
      finer.insert(finer.end(), topology.domain(id).children.begin(),
                   topology.domain(id).children.end());
    current = std::move(finer);
  }
  std::erase_if(current, [&topology](DomainId id) { return topology.domain(id).name.empty(); });
  return current;
}

}  // namespace paceline::sched
