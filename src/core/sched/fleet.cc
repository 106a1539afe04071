#include "core/sched/fleet.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/hash.h"

namespace paceline::sched {

Fleet::Fleet(std::shared_ptr<const Topology> topology) : topology_(std::move(topology)) {
  CHECK(topology_ != nullptr);
  nodes_.resize(topology_->node_count());
  counts_.resize(topology_->domains().size() * topology_->classes().size() * kCounters);
  free_gpus_.resize(topology_->domains().size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const NodeClass& kind = topology_->kind(topology_->node(i).kind);
    NodeState& node = nodes_[i];
    node.free = kind.capacity;
    node.gpu_count = node.whole_free = static_cast<uint8_t>(kind.gpu_count());
    for (size_t gpu = 0; gpu < node.gpu_count; ++gpu) node.gpu_free[gpu] = kMilli;
    count_node(i, true);
    up_capacity_ += kind.capacity;
  }
}

void Fleet::set_up(size_t node, bool is_up) {
  CHECK(open_marks_ == 0, "a node changes inside a trial");
  NodeState& state = nodes_[node];
  if (state.is_up == is_up) return;
  const Resources& capacity = topology_->kind(topology_->node(node).kind).capacity;
  if (is_up) {
    state.is_up = true;
    count_node(node, true);
    up_capacity_ += capacity;
  } else {
    count_node(node, false);
    state.is_up = false;
    up_capacity_ -= capacity;
  }
}

void Fleet::count_node(size_t node, bool is_added) {
  const NodeState& state = nodes_[node];
  if (!state.is_up) return;
  const Node& fixed = topology_->node(node);
  for (const DomainId domain : fixed.domains) {
    uint32_t& count = counts_[counter(domain, fixed.kind) + state.whole_free];
    int64_t& free = free_gpus_[domain.value()];
    count += is_added ? 1u : ~0u;
    free += is_added ? state.free[kGpu] : -state.free[kGpu];
  }
}

uint32_t Fleet::room_for(size_t node, const PodShape& shape) const {
  const NodeState& state = nodes_[node];
  if (!state.is_up) return 0;
  int64_t room = kMaxPods;
  for (size_t i = kGpu + 1; i < kMaxResources; ++i)
    if (shape.amount[i] > 0) room = std::min(room, state.free[i] / shape.amount[i]);
  if (shape.is_gpu_fraction()) {
    int64_t parts = 0;
    for (size_t gpu = 0; gpu < state.gpu_count; ++gpu)
      parts += state.gpu_free[gpu] / shape.amount[kGpu];
    room = std::min(room, parts);
  } else if (shape.gpu_count > 0) {
    room = std::min<int64_t>(room, state.whole_free / shape.gpu_count);
  }
  return static_cast<uint32_t>(room);
}

uint16_t Fleet::choose_gpus(const NodeState& node, const PodShape& shape) const {
  if (shape.is_gpu_fraction()) {
    size_t best = node.gpu_count;
    for (size_t gpu = 0; gpu < node.gpu_count; ++gpu)
      if (node.gpu_free[gpu] >= shape.amount[kGpu] &&
          (best == node.gpu_count || node.gpu_free[gpu] < node.gpu_free[best]))
        best = gpu;
    CHECK(best < node.gpu_count);
    return static_cast<uint16_t>(1u << best);
  }
  uint32_t chosen = 0;
  for (size_t gpu = 0; gpu < node.gpu_count && std::popcount(chosen) < shape.gpu_count; ++gpu)
    if (node.gpu_free[gpu] == kMilli) chosen |= 1u << gpu;
  CHECK(std::popcount(chosen) == shape.gpu_count);
  return static_cast<uint16_t>(chosen);
}

PodPlace Fleet::take(size_t node, const PodShape& shape) {
  CHECK(nodes_[node].is_up && shape.amount.fits_in(nodes_[node].free), "node ", node);
  const PodPlace place{.node = static_cast<uint32_t>(node),
                       .gpus = choose_gpus(nodes_[node], shape)};
  occupy(place, shape);
  return place;
}

void Fleet::occupy(const PodPlace& place, const PodShape& shape) {
  note(place, shape.amount, Direction::Take);
  change(place, shape.amount, Direction::Take);
}

void Fleet::give_back(const PodPlace& place, const PodShape& shape) {
  note(place, shape.amount, Direction::GiveBack);
  change(place, shape.amount, Direction::GiveBack);
}

void Fleet::note(const PodPlace& place, const Resources& amount, Direction direction) {
  if (open_marks_ > 0) undo_.push_back(Change{place, amount, node_hash(place.node), direction});
}

void Fleet::change(const PodPlace& place, const Resources& amount, Direction direction) {
  count_node(place.node, false);
  NodeState& node = nodes_[place.node];
  const bool is_taken = direction == Direction::Take;
  is_taken ? node.free -= amount : node.free += amount;
  const int gpus = std::popcount(place.gpus);
  const int64_t each = gpus == 0 ? 0 : amount[kGpu] / gpus;
  for (size_t gpu = 0; gpu < node.gpu_count; ++gpu) {
    if ((place.gpus >> gpu & 1) == 0) continue;
    const int64_t free = node.gpu_free[gpu] + (is_taken ? -each : each);
    CHECK(free >= 0 && free <= kMilli, "GPU ", gpu, " of node ", place.node, ": ", free);
    node.whole_free = static_cast<uint8_t>(
        node.whole_free - (node.gpu_free[gpu] == kMilli ? 1 : 0) + (free == kMilli ? 1 : 0));
    node.gpu_free[gpu] = static_cast<uint16_t>(free);
  }
  count_node(place.node, true);
}

Fleet::Mark Fleet::mark() {
  ++open_marks_;
  return undo_.size();
}

void Fleet::commit(Mark mark) {
  CHECK(open_marks_ > 0 && mark <= undo_.size());
  if (--open_marks_ == 0) undo_.clear();
}

void Fleet::roll_back(Mark mark) {
  CHECK(open_marks_ > 0 && mark <= undo_.size());
  while (undo_.size() > mark) {
    const Change last = undo_.back();
    undo_.pop_back();
    change(last.place, last.amount,
           last.direction == Direction::Take ? Direction::GiveBack : Direction::Take);
    CHECK(node_hash(last.place.node) == last.hash_before, "a trial left a trace on node ",
          last.place.node);
  }
  --open_marks_;
}

uint64_t Fleet::node_hash(size_t node) const {
  const NodeState& state = nodes_[node];
  Digest digest;
  digest.add(node).add(state.is_up).add(state.whole_free);
  for (size_t i = 0; i < kMaxResources; ++i) digest.add(state.free[i]);
  for (size_t gpu = 0; gpu < state.gpu_count; ++gpu) digest.add(state.gpu_free[gpu]);
  return digest.value();
}

uint64_t Fleet::hash() const {
  Digest digest;
  for (size_t i = 0; i < nodes_.size(); ++i) digest.add(node_hash(i));
  for (const uint32_t count : counts_) digest.add(count);
  for (const int64_t free : free_gpus_) digest.add(free);
  return digest.value();
}

}  // namespace paceline::sched
