// Plans: a collective as data, apart from whatever carries it out.
//
// A message is cut into `blocks` parts (Partition). A plan is a list of transfers, ordered by
// round: `from` sends blocks to `to`, which adds them to its own or takes them instead of its own.
// All transfers of a round read what their senders held when it began. An executor is free to
// overlap rounds as long as each rank keeps the order of what it reads and writes.
//
//   one-shot            everybody sends everything to everybody: one round, n - 1 messages
//   two-shot            everybody sends block b to rank b, which adds and sends the sum to all
//   recursive-doubling  in round k partners at distance 2^k exchange everything; the ranks beyond
//   the
//                       largest power of two hand theirs in first and get the result last
//   ring                2(n-1) rounds; in each, everybody sends one block to the next rank
//   split-rail          g ranks on each of P hosts: two-shot's first half inside each host leaves
//   local rank l with rail
//                       l, one g-th of the message; a ring over the hosts for each rail; two-shot's
//                       second half
//
// Reduce-scatter (block r ends on rank r) and all-gather (block r begins on rank r) are the halves
// of two-shot and ring; there one-shot is the half of two-shot. Broadcast: one-shot is flat,
// recursive-doubling the binomial tree, two-shot a scatter followed by an all-gather.
#pragma once

#include <compare>
#include <cstdint>
#include <ostream>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/fabric/operation.h"
#include "core/fabric/partition.h"

namespace paceline::fabric {

enum class Algorithm : uint8_t { OneShot, TwoShot, RecursiveDoubling, Ring, SplitRail };
inline constexpr Algorithm kAlgorithms[] = {Algorithm::OneShot, Algorithm::TwoShot,
                                            Algorithm::RecursiveDoubling, Algorithm::Ring,
                                            Algorithm::SplitRail};

constexpr std::string_view name_of(Algorithm algorithm) {
  constexpr std::string_view kNames[] = {"one-shot", "two-shot", "recursive-doubling", "ring",
                                         "split-rail"};
  return kNames[static_cast<size_t>(algorithm)];
}

// Rank r is number r % ranks_per_host on host r / ranks_per_host.
struct Shape {
  uint32_t hosts = 1;
  uint32_t ranks_per_host = 1;

  uint32_t ranks() const { return hosts * ranks_per_host; }
  uint32_t host_of(uint32_t rank) const { return rank / ranks_per_host; }
  auto operator<=>(const Shape&) const = default;
};

struct Transfer {
  uint32_t round = 0;
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t first_block = 0;
  uint32_t blocks = 1;
  bool is_added = false;  // else taken
};

struct Plan {
  Operation operation = Operation::AllReduce;
  Algorithm algorithm = Algorithm::OneShot;
  Shape shape = {};
  uint32_t root = 0;  // of a broadcast
  uint32_t blocks = 1;
  uint32_t rounds = 0;
  std::vector<Transfer> transfers;  // by round, then sender, then receiver

  Partition partition(uint64_t elements) const { return {.elements = elements, .parts = blocks}; }
};

// The number of ranks of one plan: a plan is O(ranks^2).
inline constexpr uint32_t kMaxPlanRanks = 1024;

struct PlanRequest {
  Operation operation = Operation::AllReduce;
  Algorithm algorithm = Algorithm::OneShot;
  Shape shape = {};
  uint32_t root = 0;
};
bool has_plan(Operation operation, Algorithm algorithm);
// Refused if there is no such plan, with what there is.
Result<Plan> make_plan(const PlanRequest& request);

// What a rank, or all of them, send.
struct Traffic {
  uint64_t local_bytes = 0;   // within a host
  uint64_t remote_bytes = 0;  // between hosts
  auto operator<=>(const Traffic&) const = default;
};

struct MessageSize {
  uint64_t elements = 0;
  uint32_t element_bytes = 1;
  uint64_t bytes() const { return elements * element_bytes; }
};

// By the closed forms in docs/design/0009, to the byte; no plan is made. REQUIRES: has_plan.
Traffic sent_by_rank(const PlanRequest& request, const MessageSize& size, uint32_t rank);
// By going through the transfers.
Traffic counted_by_rank(const Plan& plan, const MessageSize& size, uint32_t rank);

// As a person reads it: a heading and a line per round.
std::ostream& operator<<(std::ostream& out, const Plan& plan);

}  // namespace paceline::fabric
