#include "core/sched/placer.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/check.h"

namespace paceline::sched {
namespace {

// What is compared between places that have room: less is better.
using Fitness = std::tuple<uint64_t, uint64_t>;

Fitness fitness(const PodShape& shape, uint64_t room, int64_t free_gpus) {
  const auto free = static_cast<uint64_t>(free_gpus);
  return shape.gpu_count == 0 ? Fitness(free, room) : Fitness(room, free);
}

std::optional<Level> finer_of(std::optional<Level> a, std::optional<Level> b) {
  if (!a || !b) return a ? a : b;
  return std::max(*a, *b);
}

// Largest pods first: they have the fewest places to go.
std::vector<size_t> placing_order(const JobShape& job) {
  std::vector<size_t> order(job.groups.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&job](size_t a, size_t b) {
    return job.groups[a].shape.amount > job.groups[b].shape.amount;
  });
  return order;
}

}  // namespace

LevelRange levels_of(const Closeness& closeness, const Topology& topology, Level inside) {
  LevelRange range{.finest = closeness.preferred.value_or(topology.node_level()),
                   .coarsest = std::max(inside, closeness.required.value_or(Level(0)))};
  range.finest = std::max(range.finest, range.coarsest);
  return range;
}

Closeness joint_closeness(const JobShape& job, const PodGroup& group) {
  return Closeness{.required = finer_of(job.closeness.required, group.closeness.required),
                   .preferred = finer_of(job.closeness.preferred, group.closeness.preferred)};
}

std::optional<Placement> Placer::place(const JobShape& job) {
  CHECK(!job.groups.empty());
  if (job.groups.size() == 1) return place_single(job);
  const Topology& topology = fleet_.topology();
  const std::vector<size_t> order = placing_order(job);
  const LevelRange levels = levels_of(job.closeness, topology, Level(0));
  const int finest = std::min<int>(levels.finest.value(), topology.node_level().value() - 1);
  for (int level = finest; level >= levels.coarsest.value(); --level) {
    std::vector<DomainId> domains =
        domains_inside(topology, Topology::cluster(), Level(static_cast<uint8_t>(level)));
    std::erase_if(domains, [&](DomainId id) { return fleet_.free_gpus(id) < job.total()[kGpu]; });
    std::stable_sort(domains.begin(), domains.end(), [this](DomainId a, DomainId b) {
      return fleet_.free_gpus(a) < fleet_.free_gpus(b);
    });
    for (const DomainId domain : domains) {
      if (auto placement = place_inside(job, order, domain)) return placement;
      if (budget_.is_spent()) return std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<Placement> Placer::find(const JobShape& job) {
  const Fleet::Mark mark = fleet_.mark();
  auto placement = place(job);
  fleet_.roll_back(mark);
  return placement;
}

std::optional<Placement> Placer::place_single(const JobShape& job) {
  const PodGroup& group = job.groups.front();
  auto pods = place_group(group, joint_closeness(job, group), Topology::cluster());
  if (!pods) return std::nullopt;
  return Placement{.groups = {std::move(*pods)}};
}

std::optional<Placement> Placer::place_inside(const JobShape& job, const std::vector<size_t>& order,
                                              DomainId inside) {
  Placement placement{.groups = std::vector<Pods>(job.groups.size())};
  const Fleet::Mark mark = fleet_.mark();
  for (const size_t index : order) {
    const PodGroup& group = job.groups[index];
    auto pods = place_group(group, group.closeness, inside);
    if (!pods) {
      fleet_.roll_back(mark);
      return std::nullopt;
    }
    placement.groups[index] = std::move(*pods);
  }
  fleet_.commit(mark);
  return placement;
}

std::optional<Placer::Pods> Placer::place_group(const PodGroup& group, const Closeness& closeness,
                                                DomainId inside) {
  const Topology& topology = fleet_.topology();
  const LevelRange levels = levels_of(closeness, topology, topology.domain(inside).level);
  Pods pods;
  if (group.pods == 1 && inside == Topology::cluster() && levels.coarsest == Level(0)) {
    if (!budget_.spend(1)) return std::nullopt;
    if (const auto node = descend(group.shape)) {
      pods.push_back(fleet_.take(*node, group.shape));
      return pods;
    }
  }
  if (!budget_.spend(topology.node_count())) return std::nullopt;
  const RoomMap rooms(fleet_, group.shape, closed_);
  if (rooms.domain(inside) < group.pods) return std::nullopt;
  const Scope scope{group, inside, rooms};
  for (Level level = levels.finest;; level = Level(static_cast<uint8_t>(level.value() - 1u))) {
    if (level == topology.node_level()) {
      if (const auto node = best_node(scope)) {
        take(scope, *node, group.pods, pods);
        return pods;
      }
    } else if (const auto domain = best_domain(scope, level)) {
      fill(scope, *domain, group.pods, pods);
      std::sort(pods.begin(), pods.end());
      return pods;
    }
    if (level == levels.coarsest) return std::nullopt;
  }
}

std::optional<size_t> Placer::best_node(const Scope& scope) const {
  const Domain& domain = fleet_.topology().domain(scope.inside);
  std::optional<size_t> best;
  Fitness best_fitness;
  for (size_t i = domain.first_node; i < domain.end_node; ++i) {
    if (scope.rooms.node(i) < scope.group.pods) continue;
    const Fitness here = fitness(scope.group.shape, scope.rooms.node(i), fleet_.free(i)[kGpu]);
    if (best && best_fitness <= here) continue;
    best = i;
    best_fitness = here;
  }
  return best;
}

std::optional<DomainId> Placer::best_domain(const Scope& scope, Level level) const {
  std::optional<DomainId> best;
  Fitness best_fitness;
  for (const DomainId id : domains_inside(fleet_.topology(), scope.inside, level)) {
    if (scope.rooms.domain(id) < scope.group.pods) continue;
    const Fitness here = fitness(scope.group.shape, scope.rooms.domain(id), fleet_.free_gpus(id));
    if (best && best_fitness <= here) continue;
    best = id;
    best_fitness = here;
  }
  return best;
}

// The counters lead one pod of whole GPUs to the fullest node that has room, without a look at the
// others. Nothing: it cannot be seen from the counters (fractions, no GPUs, closed nodes, nodes
// that lack something else), or there is none.
std::optional<size_t> Placer::descend(const PodShape& shape) const {
  if (shape.gpu_count == 0 || shape.is_gpu_fraction()) return std::nullopt;
  std::vector<NodeClassId> kinds;
  for (size_t i = 0; i < fleet_.topology().classes().size(); ++i)
    if (shape.matches(fleet_.topology().classes()[i]))
      kinds.push_back(NodeClassId(static_cast<uint16_t>(i)));
  for (size_t whole = shape.gpu_count; whole <= kMaxGpusPerNode; ++whole)
    if (const auto node = descend_to(shape, kinds, whole)) return node;
  return std::nullopt;
}

std::optional<size_t> Placer::descend_to(const PodShape& shape,
                                         const std::vector<NodeClassId>& kinds,
                                         size_t whole_free_gpus) const {
  const Topology& topology = fleet_.topology();
  const auto has_nodes = [&](DomainId id) {
    return std::any_of(kinds.begin(), kinds.end(), [&](NodeClassId kind) {
      return fleet_.count(id, kind, whole_free_gpus) > 0;
    });
  };
  DomainId at = Topology::cluster();
  if (!has_nodes(at)) return std::nullopt;
  while (!topology.domain(at).children.empty()) {
    std::optional<DomainId> best;
    for (const DomainId child : topology.domain(at).children)
      if (has_nodes(child) && (!best || fleet_.free_gpus(child) < fleet_.free_gpus(*best)))
        best = child;
    CHECK(best.has_value());
    at = *best;
  }
  const Domain& domain = topology.domain(at);
  for (size_t i = domain.first_node; i < domain.end_node; ++i) {
    const bool is_of_kind =
        std::find(kinds.begin(), kinds.end(), topology.node(i).kind) != kinds.end();
    if (fleet_.whole_free_gpus(i) == whole_free_gpus && is_of_kind && is_open_for(i, shape))
      return i;
  }
  return std::nullopt;
}

bool Placer::is_open_for(size_t node, const PodShape& shape) const {
  return (closed_ == nullptr || !(*closed_)[node]) && fleet_.room_for(node, shape) > 0;
}

void Placer::fill(const Scope& scope, DomainId domain_id, uint64_t count, Pods& pods) {
  const Domain& domain = fleet_.topology().domain(domain_id);
  if (domain.children.empty()) return fill_nodes(scope, domain, count, pods);
  std::vector<DomainId> left = domain.children;
  while (count > 0) {
    std::optional<DomainId> best;
    const auto is_better = [&](DomainId a, DomainId b) {  // `a` than `b`
      const uint64_t room_a = scope.rooms.domain(a), room_b = scope.rooms.domain(b);
      if ((room_a >= count) != (room_b >= count)) return room_a >= count;
      if (room_a < count) return room_a > room_b;
      return fitness(scope.group.shape, room_a, fleet_.free_gpus(a)) <
             fitness(scope.group.shape, room_b, fleet_.free_gpus(b));
    };
    for (const DomainId child : left)
      if (!best || is_better(child, *best)) best = child;
    CHECK(best.has_value(), "a domain has less room than counted");
    const uint64_t here = std::min<uint64_t>(count, scope.rooms.domain(*best));
    fill(scope, *best, here, pods);
    count -= here;
    std::erase(left, *best);
  }
}

void Placer::fill_nodes(const Scope& scope, const Domain& domain, uint64_t count, Pods& pods) {
  // Most room first; what is left at the end goes where it fits most tightly.
  std::vector<size_t> nodes;
  for (size_t i = domain.first_node; i < domain.end_node; ++i)
    if (scope.rooms.node(i) > 0) nodes.push_back(i);
  std::stable_sort(nodes.begin(), nodes.end(),
                   [&](size_t a, size_t b) { return scope.rooms.node(a) > scope.rooms.node(b); });
  for (size_t next = 0; next < nodes.size() && count > 0; ++next) {
    size_t chosen = next;
    for (size_t i = next; i < nodes.size() && scope.rooms.node(nodes[i]) >= count; ++i)
      if (scope.rooms.node(nodes[i]) < scope.rooms.node(nodes[chosen])) chosen = i;
    const uint64_t here = std::min<uint64_t>(count, scope.rooms.node(nodes[chosen]));
    take(scope, nodes[chosen], here, pods);
    count -= here;
  }
  CHECK(count == 0, "a domain has less room than counted");
}

void Placer::take(const Scope& scope, size_t node, uint64_t count, Pods& pods) {
  for (uint64_t i = 0; i < count; ++i) pods.push_back(fleet_.take(node, scope.group.shape));
}

}  // namespace paceline::sched
