// The closed forms of what each rank sends. S is the message, s(b) block b of B, n ranks, P hosts
// of g; all in bytes and exact, also where blocks differ in length.
#include <bit>

#include "base/check.h"
#include "core/fabric/plan.h"

namespace paceline::fabric {
namespace {

// A message in blocks, in bytes.
struct Blocks {
  Partition partition;
  uint32_t element_bytes;
  uint64_t total() const { return partition.elements * element_bytes; }
  uint64_t block(uint32_t b) const { return partition.count(b) * element_bytes; }
  uint64_t run(uint32_t first, uint32_t blocks) const {
    return (partition.begin(first + blocks) - partition.begin(first)) * element_bytes;
  }
};

// Sums what one rank sends, by where it goes.
class Sender {
 public:
  Sender(const Shape& shape, uint32_t rank) : shape_(shape), rank_(rank) {}
  void send(uint32_t to, uint64_t bytes) {
    if (to == rank_) return;
    const bool is_local = shape_.host_of(to) == shape_.host_of(rank_);
    (is_local ? traffic_.local_bytes : traffic_.remote_bytes) += bytes;
  }
  // The same to each other rank.
  void send_to_all(uint64_t bytes) {
    traffic_.local_bytes += bytes * (shape_.ranks_per_host - 1);
    traffic_.remote_bytes += bytes * (shape_.ranks() - shape_.ranks_per_host);
  }
  // Block `to` to each other rank.
  void send_each_its_block(const Blocks& blocks) {
    const uint32_t first = shape_.host_of(rank_) * shape_.ranks_per_host;
    const uint64_t on_host = blocks.run(first, shape_.ranks_per_host);
    traffic_.local_bytes += on_host - blocks.block(rank_);
    traffic_.remote_bytes += blocks.total() - on_host;
  }
  Traffic traffic() const { return traffic_; }

 private:
  Shape shape_;
  uint32_t rank_;
  Traffic traffic_;
};

// Number i of a ring passes on all blocks but its own while reducing, S - s(i); and all but the
// next number's, which that one has completed, while gathering, S - s(i + 1).
uint64_t ring_reducing(const Blocks& blocks, uint32_t i) {
  return blocks.total() - blocks.block(i);
}
uint64_t ring_gathering(const Blocks& blocks, uint32_t i) {
  return blocks.total() - blocks.block((i + 1) % blocks.partition.parts);
}

// S for each doubling. Who is beyond the power of two sends S once, and its partner S once more.
void send_doubling(Sender& sender, uint64_t total, uint32_t ranks, uint32_t rank) {
  const uint32_t power = std::bit_floor(ranks);
  if (rank >= power) return sender.send(rank - power, total);
  for (uint32_t distance = 1; distance < power; distance *= 2) sender.send(rank ^ distance, total);
  if (rank + power < ranks) sender.send(rank + power, total);
}

// S to number i + 2^k, counted from the root, for every k with i < 2^k.
void send_tree(Sender& sender, uint64_t total, const PlanRequest& request, uint32_t rank) {
  const uint32_t ranks = request.shape.ranks();
  const uint32_t i = (rank + ranks - request.root) % ranks;
  for (uint32_t distance = 1; distance < ranks; distance *= 2)
    if (i < distance && i + distance < ranks) sender.send((rank + distance) % ranks, total);
}

// Inside the host S - S(l) to the owners of the other rails, then S(l) to each; over the ring of
// rail l 2 S(l) less two of its P blocks, which is 2(P-1)/P S(l) where P divides it.
Traffic split_rail(const PlanRequest& request, const Blocks& blocks, uint32_t rank) {
  const uint32_t hosts = request.shape.hosts;
  const uint32_t rails = request.shape.ranks_per_host;
  const uint32_t first = rank % rails * hosts;
  const uint32_t host = request.shape.host_of(rank);
  const uint64_t rail = blocks.run(first, hosts);
  Traffic traffic;
  traffic.local_bytes = blocks.total() - rail + (rails - 1) * rail;
  if (hosts > 1)
    traffic.remote_bytes =
        2 * rail - blocks.block(first + host) - blocks.block(first + (host + 1) % hosts);
  return traffic;
}

void send_broadcast(Sender& sender, const PlanRequest& request, const Blocks& blocks,
                    uint32_t rank) {
  if (request.algorithm == Algorithm::RecursiveDoubling)
    return send_tree(sender, blocks.total(), request, rank);
  if (request.algorithm == Algorithm::OneShot) {
    if (rank == request.root) sender.send_to_all(blocks.total());
    return;
  }
  if (rank == request.root) sender.send_each_its_block(blocks);
  for (uint32_t to = 0; to < request.shape.ranks(); ++to)
    if (to != request.root) sender.send(to, blocks.block(rank));
}

void send_all_reduce(Sender& sender, const PlanRequest& request, const Blocks& blocks,
                     uint32_t rank) {
  const uint32_t ranks = request.shape.ranks();
  switch (request.algorithm) {
    case Algorithm::OneShot:
      return sender.send_to_all(blocks.total());
    case Algorithm::TwoShot:
      sender.send_each_its_block(blocks);
      return sender.send_to_all(blocks.block(rank));
    case Algorithm::RecursiveDoubling:
      return send_doubling(sender, blocks.total(), ranks, rank);
    case Algorithm::Ring:
      return sender.send((rank + 1) % ranks,
                         ring_reducing(blocks, rank) + ring_gathering(blocks, rank));
    case Algorithm::SplitRail:
      CHECK(false, "counted apart");
  }
}

}  // namespace

Traffic sent_by_rank(const PlanRequest& request, const MessageSize& size, uint32_t rank) {
  CHECK(has_plan(request.operation, request.algorithm) && rank < request.shape.ranks());
  const uint32_t ranks = request.shape.ranks();
  const Blocks blocks = {.partition = {.elements = size.elements, .parts = ranks},
                         .element_bytes = size.element_bytes};
  if (request.algorithm == Algorithm::SplitRail) return split_rail(request, blocks, rank);
  Sender sender(request.shape, rank);
  const bool is_ring = request.algorithm == Algorithm::Ring;
  switch (request.operation) {
    case Operation::AllReduce:
      send_all_reduce(sender, request, blocks, rank);
      break;
    case Operation::ReduceScatter:
      if (is_ring) sender.send((rank + 1) % ranks, ring_reducing(blocks, rank));
      if (!is_ring) sender.send_each_its_block(blocks);
      break;
    case Operation::AllGather:
      if (is_ring) sender.send((rank + 1) % ranks, ring_gathering(blocks, rank));
      if (!is_ring) sender.send_to_all(blocks.block(rank));
      break;
    case Operation::Broadcast:
      send_broadcast(sender, request, blocks, rank);
      break;
    case Operation::Barrier:
      break;
  }
  return sender.traffic();
}

}  // namespace paceline::fabric
