// Topology: the nodes of a cluster as leaves of a tree of domains (zone, spine, leaf, rack, ...).
//
// Nodes are numbered by *position*, in the order of the tree, so that the nodes of a domain are
// neighbours. Domains are numbered level by level; within a level in the same order. Siblings come
// in the order of their lowest node id. So the same cluster gets the same numbers, in whatever
// order its nodes were named.
//
// A node whose name at some level is empty has no domain there: it is never inside "one rack".
//
// Immutable once made.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/sched/ids.h"
#include "core/sched/resources.h"

namespace paceline::sched {

inline constexpr size_t kMaxLevels = 12;
inline constexpr size_t kMaxGpusPerNode = 16;

// What jobs may ask of a node beside amounts.
struct NodeClass {
  Resources capacity = {};
  std::string gpu_model = {};
  std::vector<std::string> features = {};  // sorted
  auto operator<=>(const NodeClass&) const = default;
  size_t gpu_count() const { return static_cast<size_t>(capacity[kGpu] / kMilli); }
};

struct NodeSpec {
  NodeId id;
  std::string name = {};
  std::vector<std::string> path = {};  // names of its domains, coarsest level first
  NodeClass kind = {};
};

struct Node {
  NodeId id;
  std::string name;
  NodeClassId kind;
  std::vector<DomainId> domains;  // by level; the first is the cluster
};

struct Domain {
  Level level;
  std::string name;  // empty: of nodes that have no domain at this level
  std::optional<DomainId> parent;
  std::vector<DomainId> children;  // empty at the last level of domains
  size_t first_node = 0, end_node = 0;
};

class Topology {
 public:
  // `levels` are the names of the levels between the cluster and the node, coarsest first.
  static Result<Topology> make(std::vector<std::string> levels, std::vector<NodeSpec> nodes);

  size_t node_count() const { return nodes_.size(); }
  const Node& node(size_t position) const { return nodes_[position]; }
  std::optional<size_t> find(NodeId id) const;  // its position
  const NodeClass& kind(NodeClassId id) const { return classes_[id.value()]; }
  const std::vector<NodeClass>& classes() const { return classes_; }

  const Domain& domain(DomainId id) const { return domains_[id.value()]; }
  const std::vector<Domain>& domains() const { return domains_; }
  static constexpr DomainId cluster() { return DomainId(0); }

  // The level of nodes themselves: "inside one node".
  Level node_level() const { return Level(static_cast<uint8_t>(levels_.size() + 1)); }
  std::optional<Level> find_level(std::string_view name) const;  // "cluster" and "node" included
  std::string level_name(Level level) const;

  Resources capacity() const;  // of all nodes

 private:
  void number_classes(const std::vector<NodeSpec>& specs);
  void build_domains(const std::vector<NodeSpec>& specs);

  std::vector<std::string> levels_;
  std::vector<Node> nodes_;
  std::vector<Domain> domains_;
  std::vector<NodeClass> classes_;                    // sorted
  std::vector<std::pair<NodeId, size_t>> positions_;  // by id
};

}  // namespace paceline::sched
