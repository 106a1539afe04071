#include "core/fabric/plan.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "base/check.h"
#include "base/str.h"

namespace paceline::fabric {
namespace {

// Adds transfers round by round.
class Builder {
 public:
  explicit Builder(const PlanRequest& request) {
    plan_.operation = request.operation;
    plan_.algorithm = request.algorithm;
    plan_.shape = request.shape;
    plan_.root = request.root;
  }

  void set_blocks(uint32_t blocks) { plan_.blocks = blocks; }
  void next_round() { ++plan_.rounds; }
  // In the round last begun.
  void add(uint32_t from, uint32_t to, uint32_t block) { push(from, to, block, 1, true); }
  void take(uint32_t from, uint32_t to, uint32_t block) { push(from, to, block, 1, false); }
  void add_all(uint32_t from, uint32_t to) { push(from, to, 0, plan_.blocks, true); }
  void take_all(uint32_t from, uint32_t to) { push(from, to, 0, plan_.blocks, false); }
  void take_some(uint32_t from, uint32_t to, uint32_t first, uint32_t blocks) {
    push(from, to, first, blocks, false);
  }
  void add_some(uint32_t from, uint32_t to, uint32_t first, uint32_t blocks) {
    push(from, to, first, blocks, true);
  }

  Plan finish() {
    std::sort(plan_.transfers.begin(), plan_.transfers.end(),
              [](const Transfer& a, const Transfer& b) {
                return std::tie(a.round, a.from, a.to, a.first_block) <
                       std::tie(b.round, b.from, b.to, b.first_block);
              });
    return std::move(plan_);
  }

 private:
  void push(uint32_t from, uint32_t to, uint32_t first, uint32_t blocks, bool is_added) {
    CHECK(plan_.rounds > 0);
    if (from == to) return;
    plan_.transfers.push_back({.round = plan_.rounds - 1,
                               .from = from,
                               .to = to,
                               .first_block = first,
                               .blocks = blocks,
                               .is_added = is_added});
  }

  Plan plan_;
};

// Members of a ring or of a two-shot: rank `first + i * stride` is number i.
struct Line {
  uint32_t first = 0;
  uint32_t stride = 1;
  uint32_t count = 1;
  uint32_t rank(uint32_t i) const { return first + i % count * stride; }
};

void scatter_directly(Builder& plan, uint32_t ranks) {
  plan.next_round();
  for (uint32_t from = 0; from < ranks; ++from)
    for (uint32_t to = 0; to < ranks; ++to) plan.add(from, to, to);
}

// `has_all` needs nothing; kNobody for none such.
constexpr uint32_t kNobody = UINT32_MAX;
void gather_directly(Builder& plan, uint32_t ranks, uint32_t has_all = kNobody) {
  plan.next_round();
  for (uint32_t from = 0; from < ranks; ++from)
    for (uint32_t to = 0; to < ranks; ++to)
      if (to != has_all) plan.take(from, to, from);
}

// One round of a ring's half, for one line. Number i passes on what it has just completed: in the
// reducing half block i - 1 - t, so that block i ends complete on number i after n - 1 rounds; in
// the gathering half block i - t.
void ring_round(Builder& plan, const Line& line, uint32_t first_block, uint32_t t,
                bool is_reducing) {
  const uint32_t n = line.count;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t block = first_block + (i + 2 * n - t - (is_reducing ? 1 : 0)) % n;
    if (is_reducing) {
      plan.add(line.rank(i), line.rank(i + 1), block);
    } else {
      plan.take(line.rank(i), line.rank(i + 1), block);
    }
  }
}

void ring_half(Builder& plan, const Line& line, bool is_reducing) {
  for (uint32_t t = 0; t + 1 < line.count; ++t) {
    plan.next_round();
    ring_round(plan, line, 0, t, is_reducing);
  }
}

void double_recursively(Builder& plan, uint32_t ranks) {
  const uint32_t power = std::bit_floor(ranks);
  if (power < ranks) {
    plan.next_round();
    for (uint32_t rank = power; rank < ranks; ++rank) plan.add_all(rank, rank - power);
  }
  for (uint32_t distance = 1; distance < power; distance *= 2) {
    plan.next_round();
    for (uint32_t rank = 0; rank < power; ++rank) plan.add_all(rank, rank ^ distance);
  }
  if (power < ranks) {
    plan.next_round();
    for (uint32_t rank = power; rank < ranks; ++rank) plan.take_all(rank - power, rank);
  }
}

// Ranks counted from the root: number i < 2^k has the message before round k and sends it to i +
// 2^k.
void broadcast_tree(Builder& plan, uint32_t ranks, uint32_t root) {
  for (uint32_t distance = 1; distance < ranks; distance *= 2) {
    plan.next_round();
    for (uint32_t i = 0; i < distance && i + distance < ranks; ++i)
      plan.take_all((root + i) % ranks, (root + i + distance) % ranks);
  }
}

// Blocks of rail l: [l * P, (l + 1) * P).
void split_rail(Builder& plan, const Shape& shape) {
  const uint32_t rails = shape.ranks_per_host;
  const uint32_t hosts = shape.hosts;
  const auto inside_hosts = [&](bool is_reducing) {
    plan.next_round();
    for (uint32_t from = 0; from < shape.ranks(); ++from)
      for (uint32_t local = 0; local < rails; ++local) {
        const uint32_t to = shape.host_of(from) * rails + local;
        if (is_reducing) {
          plan.add_some(from, to, local * hosts, hosts);
        } else {
          plan.take_some(from, to, from % rails * hosts, hosts);
        }
      }
  };
  if (rails > 1) inside_hosts(true);
  for (const bool is_reducing : {true, false})
    for (uint32_t t = 0; t + 1 < hosts; ++t) {
      plan.next_round();
      for (uint32_t rail = 0; rail < rails; ++rail)
        ring_round(plan, {.first = rail, .stride = rails, .count = hosts}, rail * hosts, t,
                   is_reducing);
    }
  if (rails > 1) inside_hosts(false);
}

void build_all_reduce(Builder& plan, const PlanRequest& request) {
  const uint32_t ranks = request.shape.ranks();
  switch (request.algorithm) {
    case Algorithm::OneShot:
      plan.next_round();
      for (uint32_t from = 0; from < ranks; ++from)
        for (uint32_t to = 0; to < ranks; ++to) plan.add_all(from, to);
      return;
    case Algorithm::TwoShot:
      plan.set_blocks(ranks);
      scatter_directly(plan, ranks);
      return gather_directly(plan, ranks);
    case Algorithm::RecursiveDoubling:
      return double_recursively(plan, ranks);
    case Algorithm::Ring:
      plan.set_blocks(ranks);
      ring_half(plan, {.count = ranks}, true);
      return ring_half(plan, {.count = ranks}, false);
    case Algorithm::SplitRail:
      plan.set_blocks(ranks);
      return split_rail(plan, request.shape);
  }
}

void build_half(Builder& plan, const PlanRequest& request) {
  const uint32_t ranks = request.shape.ranks();
  const bool is_reducing = request.operation == Operation::ReduceScatter;
  plan.set_blocks(ranks);
  if (request.algorithm == Algorithm::Ring) return ring_half(plan, {.count = ranks}, is_reducing);
  if (is_reducing) return scatter_directly(plan, ranks);
  gather_directly(plan, ranks);
}

void build_broadcast(Builder& plan, const PlanRequest& request) {
  const uint32_t ranks = request.shape.ranks();
  if (request.algorithm == Algorithm::RecursiveDoubling)
    return broadcast_tree(plan, ranks, request.root);
  plan.next_round();
  if (request.algorithm == Algorithm::OneShot) {
    for (uint32_t to = 0; to < ranks; ++to) plan.take_all(request.root, to);
    return;
  }
  plan.set_blocks(ranks);
  for (uint32_t to = 0; to < ranks; ++to) plan.take(request.root, to, to);
  gather_directly(plan, ranks, request.root);
}

}  // namespace

bool has_plan(Operation operation, Algorithm algorithm) {
  switch (operation) {
    case Operation::AllReduce:
      return true;
    case Operation::ReduceScatter:
    case Operation::AllGather:
      return algorithm == Algorithm::OneShot || algorithm == Algorithm::Ring;
    case Operation::Broadcast:
      return algorithm == Algorithm::OneShot || algorithm == Algorithm::TwoShot ||
             algorithm == Algorithm::RecursiveDoubling;
    case Operation::Barrier:
      return false;  // it moves nothing
  }
  return false;
}

Result<Plan> make_plan(const PlanRequest& request) {
  const uint32_t ranks = request.shape.ranks();
  if (request.shape.hosts < 1 || request.shape.ranks_per_host < 1 ||
      request.shape.hosts > kMaxPlanRanks || request.shape.ranks_per_host > kMaxPlanRanks ||
      ranks > kMaxPlanRanks)
    return Failure{ErrorCode::InvalidArgument,
                   str("a plan for ", request.shape.hosts, " hosts with ",
                       request.shape.ranks_per_host, " ranks; 1 to ", kMaxPlanRanks, " together")};
  if (request.root >= ranks)
    return Failure{ErrorCode::InvalidArgument,
                   str("root ", request.root, " of ", ranks, " ranks; 0 to ", ranks - 1)};
  if (!has_plan(request.operation, request.algorithm)) {
    std::string known;
    for (const Algorithm algorithm : kAlgorithms)
      if (has_plan(request.operation, algorithm))
        known += str(known.empty() ? "" : ", ", name_of(algorithm));
    return Failure{ErrorCode::InvalidArgument,
                   str("no plan for ", name_of(request.operation), " by ",
                       name_of(request.algorithm), "; there is ", known.empty() ? "none" : known)};
  }
  Builder plan(request);
  if (request.operation == Operation::AllReduce) build_all_reduce(plan, request);
  if (request.operation == Operation::Broadcast) build_broadcast(plan, request);
  if (request.operation == Operation::ReduceScatter || request.operation == Operation::AllGather)
    build_half(plan, request);
  return plan.finish();
}

Traffic counted_by_rank(const Plan& plan, const MessageSize& size, uint32_t rank) {
  const Partition partition = plan.partition(size.elements);
  Traffic traffic;
  for (const Transfer& transfer : plan.transfers) {
    if (transfer.from != rank) continue;
    const uint64_t elements = partition.begin(transfer.first_block + transfer.blocks) -
                              partition.begin(transfer.first_block);
    const bool is_local = plan.shape.host_of(transfer.from) == plan.shape.host_of(transfer.to);
    (is_local ? traffic.local_bytes : traffic.remote_bytes) += elements * size.element_bytes;
  }
  return traffic;
}

std::ostream& operator<<(std::ostream& out, const Plan& plan) {
  out << name_of(plan.operation) << " by " << name_of(plan.algorithm) << ": " << plan.shape.hosts
      << " x " << plan.shape.ranks_per_host << " ranks, " << plan.blocks << " blocks, "
      << plan.rounds << " rounds\n";
  uint32_t round = UINT32_MAX;
  for (const Transfer& transfer : plan.transfers) {
    if (transfer.round != round) {
      if (round != UINT32_MAX) out << "\n";
      round = transfer.round;
      out << "  round " << round << ":";
    }
    out << " " << transfer.from << (transfer.is_added ? " +> " : " -> ") << transfer.to << "["
        << transfer.first_block;
    if (transfer.blocks > 1) out << "-" << transfer.first_block + transfer.blocks - 1;
    out << "]";
  }
  return out << (plan.transfers.empty() ? "" : "\n");
}

}  // namespace paceline::fabric
