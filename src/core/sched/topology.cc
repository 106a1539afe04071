#include "core/sched/topology.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/str.h"

namespace paceline::sched {
namespace {

Status check_node(const NodeSpec& node, size_t level_count) {
  if (node.path.size() != level_count)
    return Failure{ErrorCode::InvalidArgument, str("node ", node.name, " names ", node.path.size(),
                                                   " domains, the topology has ", level_count)};
  const int64_t gpus = node.kind.capacity[kGpu];
  if (gpus % kMilli != 0 || gpus > static_cast<int64_t>(kMaxGpusPerNode) * kMilli)
    return Failure{ErrorCode::InvalidArgument,
                   str("node ", node.name, " has ", gpus / kMilli, " GPUs, at most ",
                       kMaxGpusPerNode, " are possible")};
  for (size_t i = 0; i < kMaxResources; ++i)
    if (node.kind.capacity[i] < 0 || node.kind.capacity[i] >= kUnlimited)
      return Failure{ErrorCode::InvalidArgument,
                     str("node ", node.name, " has an amount out of range")};
  return {};
}

// Sorts into tree order: by the lowest node id of the domain at each level, then by node id.
void sort_along_tree(std::vector<NodeSpec>& nodes) {
  using Path = std::vector<std::string>;
  std::map<Path, NodeId> lowest;  // of each domain, named by its path from the top
  for (const NodeSpec& node : nodes)
    for (size_t depth = 1; depth <= node.path.size(); ++depth) {
      const Path prefix(node.path.begin(), node.path.begin() + static_cast<std::ptrdiff_t>(depth));
      const auto [entry, is_new] = lowest.emplace(prefix, node.id);
      if (!is_new) entry->second = std::min(entry->second, node.id);
    }
  std::vector<std::pair<std::vector<NodeId>, NodeSpec>> keyed;
  for (NodeSpec& node : nodes) {
    std::vector<NodeId> key;
    Path prefix;
    for (const std::string& name : node.path) {
      prefix.push_back(name);
      key.push_back(lowest.at(prefix));
    }
    key.push_back(node.id);
    keyed.emplace_back(std::move(key), std::move(node));
  }
  std::sort(keyed.begin(), keyed.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  nodes.clear();
  for (auto& [key, node] : keyed) nodes.push_back(std::move(node));
}

}  // namespace

Result<Topology> Topology::make(std::vector<std::string> levels, std::vector<NodeSpec> nodes) {
  if (levels.size() > kMaxLevels)
    return Failure{ErrorCode::InvalidArgument, str(levels.size(), " levels of topology, at most ",
                                                   kMaxLevels, " are possible")};
  for (NodeSpec& node : nodes) {
    TRY(check_node(node, levels.size()));
    std::sort(node.kind.features.begin(), node.kind.features.end());
  }
  sort_along_tree(nodes);

  Topology topology;
  topology.levels_ = std::move(levels);
  for (size_t i = 0; i < nodes.size(); ++i) topology.positions_.emplace_back(nodes[i].id, i);
  std::sort(topology.positions_.begin(), topology.positions_.end());
  for (size_t i = 1; i < nodes.size(); ++i)
    if (topology.positions_[i].first == topology.positions_[i - 1].first)
      return Failure{ErrorCode::InvalidArgument,
                     str("node id ", topology.positions_[i].first, " is there twice")};
  topology.number_classes(nodes);
  if (topology.classes_.size() > UINT16_MAX)
    return Failure{
        ErrorCode::InvalidArgument,
        str(topology.classes_.size(), " kinds of nodes, at most ", UINT16_MAX, " are possible")};
  topology.build_domains(nodes);
  return topology;
}

void Topology::number_classes(const std::vector<NodeSpec>& specs) {
  for (const NodeSpec& spec : specs) classes_.push_back(spec.kind);
  std::sort(classes_.begin(), classes_.end());
  classes_.erase(std::unique(classes_.begin(), classes_.end()), classes_.end());
  for (const NodeSpec& spec : specs) {
    const auto found = std::lower_bound(classes_.begin(), classes_.end(), spec.kind);
    const auto index = static_cast<uint16_t>(found - classes_.begin());
    nodes_.push_back(
        Node{.id = spec.id, .name = spec.name, .kind = NodeClassId(index), .domains = {}});
  }
}

void Topology::build_domains(const std::vector<NodeSpec>& specs) {
  domains_.push_back(Domain{.level = Level(0),
                            .name = "cluster",
                            .parent = {},
                            .children = {},
                            .first_node = 0,
                            .end_node = specs.size()});
  for (Node& node : nodes_) node.domains.push_back(cluster());
  for (size_t level = 1; level <= levels_.size(); ++level) {
    for (size_t i = 0; i < specs.size(); ++i) {
      const DomainId parent = nodes_[i].domains.back();
      const std::string& name = specs[i].path[level - 1];
      const bool continues = i > domains_[parent.value()].first_node &&
                             domains_.back().name == name && domains_.back().parent == parent;
      if (!continues) {
        const DomainId id(static_cast<uint32_t>(domains_.size()));
        domains_[parent.value()].children.push_back(id);
        domains_.push_back(Domain{.level = Level(static_cast<uint8_t>(level)),
                                  .name = name,
                                  .parent = parent,
                                  .children = {},
                                  .first_node = i,
                                  .end_node = i});
      }
      domains_.back().end_node = i + 1;
      nodes_[i].domains.push_back(DomainId(static_cast<uint32_t>(domains_.size() - 1)));
    }
  }
}

std::optional<size_t> Topology::find(NodeId id) const {
  const auto found =
      std::lower_bound(positions_.begin(), positions_.end(), std::pair(id, size_t{0}));
  if (found == positions_.end() || found->first != id) return std::nullopt;
  return found->second;
}

std::optional<Level> Topology::find_level(std::string_view name) const {
  for (uint8_t level = 0; level <= node_level().value(); ++level)
    if (level_name(Level(level)) == name) return Level(level);
  return std::nullopt;
}

std::string Topology::level_name(Level level) const {
  CHECK(level <= node_level(), level);
  if (level.value() == 0) return "cluster";
  return level == node_level() ? "node" : levels_[level.value() - 1u];
}

Resources Topology::capacity() const {
  Resources sum;
  for (const Node& node : nodes_) sum += kind(node.kind).capacity;
  return sum;
}

}  // namespace paceline::sched
