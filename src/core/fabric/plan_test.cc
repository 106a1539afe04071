// Goal: every plan leaves every rank with every contribution exactly once, and sends to the byte
// what its closed form says. Method: an interpreter that counts contributions instead of adding
// numbers, over all algorithms, for all shapes up to 16 ranks and a number of larger ones up to 64;
// traffic with random lengths (the seed is printed, and taken back from PACELINE_TEST_SEED).
#include "core/fabric/plan.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <sstream>
#include <vector>

#include "base/rng.h"
#include "base/str.h"

namespace paceline::fabric {
namespace {

uint64_t test_seed() {
  const char* text = std::getenv("PACELINE_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 20260304;
  std::cout << "PACELINE_TEST_SEED=" << seed << "\n";
  return seed;
}

// How often each rank's contribution is in a block.
using Contents = std::vector<uint16_t>;

// What each rank holds of each block while a plan is carried out.
class Interpreter {
 public:
  explicit Interpreter(const Plan& plan) : plan_(plan), ranks_(plan.shape.ranks()), held_(ranks_) {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      held_[rank].assign(plan.blocks, Contents(ranks_, 0));
      for (uint32_t block = 0; block < plan.blocks; ++block)
        if (has_at_start(rank, block)) held_[rank][block][rank] = 1;
    }
  }

  void run() {
    size_t at = 0;
    for (uint32_t round = 0; round < plan_.rounds; ++round) {
      const size_t begin = at;
      std::vector<std::vector<Contents>> in_flight;
      for (; at < plan_.transfers.size() && plan_.transfers[at].round == round; ++at) {
        const Transfer& transfer = plan_.transfers[at];
        const auto first = held_[transfer.from].begin() + transfer.first_block;
        in_flight.emplace_back(first, first + transfer.blocks);
      }
      for (size_t i = begin; i < at; ++i) deliver(plan_.transfers[i], in_flight[i - begin]);
    }
    EXPECT_EQ(at, plan_.transfers.size()) << "transfers out of order";
  }

  void expect_result() const {
    for (uint32_t rank = 0; rank < ranks_; ++rank)
      for (uint32_t block = 0; block < plan_.blocks; ++block) {
        if (plan_.operation == Operation::ReduceScatter && block != rank) continue;
        for (uint32_t of = 0; of < ranks_; ++of)
          ASSERT_EQ(held_[rank][block][of], expected(block, of))
              << "rank " << rank << ", block " << block << ", contribution of " << of;
      }
  }

 private:
  bool has_at_start(uint32_t rank, uint32_t block) const {
    if (plan_.operation == Operation::AllGather) return rank == block;
    if (plan_.operation == Operation::Broadcast) return rank == plan_.root;
    return true;
  }
  uint16_t expected(uint32_t block, uint32_t of) const {
    if (plan_.operation == Operation::AllGather) return of == block ? 1 : 0;
    if (plan_.operation == Operation::Broadcast) return of == plan_.root ? 1 : 0;
    return 1;
  }
  void deliver(const Transfer& transfer, const std::vector<Contents>& blocks) {
    ASSERT_NE(transfer.from, transfer.to);
    for (uint32_t i = 0; i < transfer.blocks; ++i) {
      Contents& into = held_[transfer.to][transfer.first_block + i];
      if (!transfer.is_added) into.assign(ranks_, 0);
      for (uint32_t of = 0; of < ranks_; ++of)
        into[of] = static_cast<uint16_t>(into[of] + blocks[i][of]);
    }
  }

  const Plan& plan_;
  uint32_t ranks_;
  std::vector<std::vector<Contents>> held_;  // by rank and block
};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (uint32_t hosts = 1; hosts <= 16; ++hosts)
    for (uint32_t local = 1; hosts * local <= 16; ++local)
      all.push_back({.hosts = hosts, .ranks_per_host = local});
  for (const Shape& large : {Shape{1, 33}, Shape{4, 8}, Shape{8, 5}, Shape{7, 7}, Shape{8, 8},
                             Shape{64, 1}, Shape{1, 64}})
    all.push_back(large);
  return all;
}

std::vector<PlanRequest> requests(const Shape& shape) {
  std::vector<PlanRequest> all;
  for (const Operation operation : kOperations)
    for (const Algorithm algorithm : kAlgorithms) {
      if (!has_plan(operation, algorithm)) continue;
      const uint32_t root = operation == Operation::Broadcast ? shape.ranks() * 2 / 3 : 0;
      all.push_back({.operation = operation, .algorithm = algorithm, .shape = shape, .root = root});
    }
  return all;
}

Plan plan_of(const PlanRequest& request) {
  Result<Plan> plan = make_plan(request);
  CHECK(plan.has_value(), plan.has_value() ? "" : plan.error().message);
  return std::move(plan).value();
}

std::string text_of(const PlanRequest& request) {
  return str(name_of(request.operation), " by ", name_of(request.algorithm), ", ",
             request.shape.hosts, " x ", request.shape.ranks_per_host);
}

TEST(Plan, EveryContribution_ArrivesExactlyOnce) {
  for (const Shape& shape : shapes())
    for (const PlanRequest& request : requests(shape)) {
      SCOPED_TRACE(text_of(request));
      const Plan plan = plan_of(request);
      Interpreter interpreter(plan);
      interpreter.run();
      interpreter.expect_result();
      if (HasFatalFailure()) return;
    }
}

TEST(Plan, ATransferLeftOut_IsFound) {
  Plan plan = plan_of({.algorithm = Algorithm::Ring, .shape = {.hosts = 1, .ranks_per_host = 4}});
  plan.transfers.erase(plan.transfers.begin() + 5);
  Interpreter interpreter(plan);
  interpreter.run();
  testing::TestPartResultArray failures;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    interpreter.expect_result();
  }
  EXPECT_EQ(failures.size(), 1);
}

TEST(Plan, Traffic_EqualsTheClosedFormToTheByte) {
  Rng rng(test_seed());
  for (const Shape& shape : shapes())
    for (const PlanRequest& request : requests(shape)) {
      const Plan plan = plan_of(request);
      const MessageSize size = {.elements = rng.below(5000), .element_bytes = 4};
      Traffic all;
      for (uint32_t rank = 0; rank < shape.ranks(); ++rank) {
        const Traffic counted = counted_by_rank(plan, size, rank);
        ASSERT_EQ(counted, sent_by_rank(request, size, rank))
            << text_of(request) << ", rank " << rank << ", " << size.elements << " elements";
        all.local_bytes += counted.local_bytes;
        all.remote_bytes += counted.remote_bytes;
      }
      const bool is_least =
          request.algorithm == Algorithm::Ring || request.algorithm == Algorithm::TwoShot;
      if (request.operation == Operation::AllReduce && is_least) {
        EXPECT_EQ(all.local_bytes + all.remote_bytes, 2 * (shape.ranks() - 1) * size.bytes());
      }
    }
}

TEST(Plan, SplitRail_SendsPerHostWhatARingOfHostsWould) {
  const PlanRequest request = {.algorithm = Algorithm::SplitRail,
                               .shape = {.hosts = 4, .ranks_per_host = 2}};
  const MessageSize size = {.elements = 8000, .element_bytes = 4};
  const uint64_t host =
      sent_by_rank(request, size, 2).remote_bytes + sent_by_rank(request, size, 3).remote_bytes;
  EXPECT_EQ(host, 2 * 3 * size.bytes() / 4);
}

TEST(Plan, WhatThereIsNot_IsRefusedWithWhatThereIs) {
  const Result<Plan> none =
      make_plan({.operation = Operation::AllGather, .algorithm = Algorithm::SplitRail});
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().message, "no plan for all-gather by split-rail; there is one-shot, ring");
  EXPECT_FALSE(make_plan({.shape = {.hosts = 0}}).has_value());
  EXPECT_FALSE(make_plan({.shape = {.hosts = 65536, .ranks_per_host = 65536}}).has_value());
  EXPECT_FALSE(make_plan({.operation = Operation::Broadcast, .root = 1}).has_value());
}

TEST(Plan, Text_ShowsEveryRound) {
  std::ostringstream text;
  text << plan_of({.algorithm = Algorithm::TwoShot, .shape = {.hosts = 1, .ranks_per_host = 2}});
  EXPECT_EQ(text.str(),
            "all-reduce by two-shot: 1 x 2 ranks, 2 blocks, 2 rounds\n"
            "  round 0: 0 +> 1[1] 1 +> 0[0]\n"
            "  round 1: 0 -> 1[0] 1 -> 0[1]\n");
}

TEST(Partition, Parts_CoverTheMessageInWholeGranules) {
  const Partition partition = {.elements = 100, .parts = 3, .granule = 16};
  EXPECT_EQ(partition.begin(0), 0u);
  EXPECT_EQ(partition.begin(1), 32u);
  EXPECT_EQ(partition.begin(2), 64u);
  EXPECT_EQ(partition.begin(3), 100u);
  const Partition small = {.elements = 3, .parts = 4, .granule = 16};
  EXPECT_EQ(small.count(0) + small.count(1) + small.count(2), 0u);
  EXPECT_EQ(small.count(3), 3u);
}

}  // namespace
}  // namespace paceline::fabric
