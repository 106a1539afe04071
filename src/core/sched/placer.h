// Placer: where the pods of a job go.
//
// A group goes into the smallest domain that holds it, so that large holes stay for large jobs:
//
//   1. Levels are tried from the preferred one (if none is stated: the node) up to the required one
//      (the cluster). At the first level at which a domain has room for all, the one with the least
//      room is taken; ties: fewer free GPUs, then the lower number.
//   2. Inside it, sub-domains with the most room are filled whole, until what is left fits into
//   one;
//      of those that hold it the one with the least room takes it.
//
// Ranks are numbered along the tree, so neighbours in rank are neighbours in the network. Pods
// without GPUs look for nodes with few free GPUs first. Several groups: each inside a domain of the
// job's level, the largest pods first; domains are tried in the order of 1.
//
// The budget counts nodes looked at; a search that ends for lack of it has found nothing out.
#pragma once

#include <optional>
#include <vector>

#include "core/sched/fleet.h"
#include "core/sched/room_map.h"

namespace paceline::sched {

class SearchBudget {
 public:
  explicit SearchBudget(uint64_t steps) : left_(steps) {}
  bool is_spent() const { return is_spent_; }
  // False if there is not so much left; then all that follows is refused.
  bool spend(uint64_t steps) {
    is_spent_ |= steps > left_;
    if (!is_spent_) left_ -= steps;
    return !is_spent_;
  }

 private:
  uint64_t left_;
  bool is_spent_ = false;
};

// By group, in the order of the job; pods in rank order.
struct Placement {
  std::vector<std::vector<PodPlace>> groups;
  bool operator==(const Placement&) const = default;
};

class Placer {
 public:
  // `closed` may be null. All are borrowed for the Placer's life.
  Placer(Fleet& fleet, SearchBudget& budget, const ClosedNodes* closed)
      : fleet_(fleet), budget_(budget), closed_(closed) {}

  // Takes what it returns in the fleet. Nothing: there is no room, or the budget is spent; the
  // fleet is as before.
  std::optional<Placement> place(const JobShape& job);
  // Where it would go; the fleet is as before.
  std::optional<Placement> find(const JobShape& job);

 private:
  // Where one search looks: a group inside a domain.
  struct Scope {
    const PodGroup& group;
    DomainId inside;
    const RoomMap& rooms;
  };
  using Pods = std::vector<PodPlace>;

  std::optional<Placement> place_single(const JobShape& job);
  std::optional<Placement> place_inside(const JobShape& job, const std::vector<size_t>& order,
                                        DomainId inside);
  std::optional<Pods> place_group(const PodGroup& group, const Closeness& closeness,
                                  DomainId inside);
  std::optional<size_t> best_node(const Scope& scope) const;
  std::optional<DomainId> best_domain(const Scope& scope, Level level) const;
  std::optional<size_t> descend(const PodShape& shape) const;
  std::optional<size_t> descend_to(const PodShape& shape, const std::vector<NodeClassId>& kinds,
                                   size_t whole_free_gpus) const;
  bool is_open_for(size_t node, const PodShape& shape) const;
  void fill(const Scope& scope, DomainId domain, uint64_t count, Pods& pods);
  void fill_nodes(const Scope& scope, const Domain& domain, uint64_t count, Pods& pods);
  void take(const Scope& scope, size_t node, uint64_t count, Pods& pods);

  Fleet& fleet_;
  SearchBudget& budget_;
  const ClosedNodes* closed_;
};

// The levels a search goes through, from the finest to the coarsest.
struct LevelRange {
  Level finest, coarsest;
};
LevelRange levels_of(const Closeness& closeness, const Topology& topology, Level inside);

// What holds of a job with one group: the closer of what job and group ask for.
Closeness joint_closeness(const JobShape& job, const PodGroup& group);

}  // namespace paceline::sched
