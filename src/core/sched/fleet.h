// Fleet: what is free where. The only state that a trial changes, with the way back.
//
// For every domain and class of nodes it counts the nodes by their whole free GPUs, so that a
// search passes by a domain without looking at its nodes. Nodes that are down count nowhere.
//
// A trial: `mark()`, take and give back at will, then `commit(mark)` or `roll_back(mark)`. Each
// step back compares the hash of the node with the one noted before the change, and CHECKs.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "core/sched/job.h"

namespace paceline::sched {

// One pod on one node.
struct PodPlace {
  uint32_t node = 0;  // position
  uint16_t gpus = 0;  // bit i: GPU i
  auto operator<=>(const PodPlace&) const = default;
};

class Fleet {
 public:
  // Shared, since the topology never changes and copies of the fleet are made for questions.
  explicit Fleet(std::shared_ptr<const Topology> topology);

  const Topology& topology() const { return *topology_; }
  bool is_up(size_t node) const { return nodes_[node].is_up; }
  void set_up(size_t node, bool is_up);  // REQUIRES: no open mark

  const Resources& free(size_t node) const { return nodes_[node].free; }
  size_t whole_free_gpus(size_t node) const { return nodes_[node].whole_free; }
  // How many pods of the shape the node can take now, whatever its class and closeness. O(1).
  uint32_t room_for(size_t node, const PodShape& shape) const;

  // REQUIRES: room_for(node, shape) > 0. Whole GPUs: the lowest free ones. A fraction: of the
  // fullest GPU that has room.
  PodPlace take(size_t node, const PodShape& shape);
  // A pod that is known to be there. REQUIRES: what it takes is free.
  void occupy(const PodPlace& place, const PodShape& shape);
  void give_back(const PodPlace& place, const PodShape& shape);

  // Nodes of the class in the domain with exactly so many whole free GPUs.
  uint32_t count(DomainId domain, NodeClassId kind, size_t whole_free_gpus) const {
    return counts_[counter(domain, kind) + whole_free_gpus];
  }
  int64_t free_gpus(DomainId domain) const { return free_gpus_[domain.value()]; }  // thousandths
  Resources up_capacity() const { return up_capacity_; }

  using Mark = size_t;
  Mark mark();
  void commit(Mark mark);
  void roll_back(Mark mark);

  uint64_t hash() const;  // of everything; O(nodes)

 private:
  struct NodeState {
    Resources free;
    std::array<uint16_t, kMaxGpusPerNode> gpu_free{};  // thousandths
    uint8_t gpu_count = 0;
    uint8_t whole_free = 0;
    bool is_up = true;
  };
  enum class Direction : uint8_t { Take, GiveBack };
  struct Change {
    PodPlace place;
    Resources amount;
    uint64_t hash_before = 0;
    Direction direction = Direction::Take;
  };

  static constexpr size_t kCounters = kMaxGpusPerNode + 1;
  size_t counter(DomainId domain, NodeClassId kind) const {
    return (domain.value() * topology_->classes().size() + kind.value()) * kCounters;
  }
  void count_node(size_t node, bool is_added);
  void change(const PodPlace& place, const Resources& amount, Direction direction);
  void note(const PodPlace& place, const Resources& amount, Direction direction);
  uint64_t node_hash(size_t node) const;
  uint16_t choose_gpus(const NodeState& node, const PodShape& shape) const;

  std::shared_ptr<const Topology> topology_;
  std::vector<NodeState> nodes_;
  std::vector<uint32_t> counts_;
  std::vector<int64_t> free_gpus_;  // by domain
  Resources up_capacity_;
  std::vector<Change> undo_;
  size_t open_marks_ = 0;
};

}  // namespace paceline::sched
