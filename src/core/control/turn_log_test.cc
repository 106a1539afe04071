// Goal: each turn is told once, whole, in order, whatever samples are lost or repeated. Method:
// samples by hand.
#include "core/control/turn_log.h"

#include <gtest/gtest.h>

namespace paceline::control {
namespace {

constexpr uint32_t kMicroBatches = 4;

RankId rank(uint32_t slot) { return {SlotId(slot), Incarnation(1)}; }

RankSample sample(uint64_t turn, int64_t at_ms, uint32_t micro_batches = 2) {
  RankSample sample;
  sample.turn = Turn(turn);
  sample.step = Step(turn);
  sample.micro_batches = micro_batches;
  sample.committed = Instant() + Duration::milliseconds(at_ms);
  return sample;
}

TEST(TurnLog, AllMicroBatches_CompleteTheTurn) {
  TurnLog log(kMicroBatches);
  EXPECT_TRUE(log.add(rank(0), sample(0, 10)).empty());
  const std::vector<TurnCommitted> turns = log.add(rank(1), sample(0, 11));
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].micro_batches, kMicroBatches);
  EXPECT_TRUE(log.is_through(Turn(1)));
}

TEST(TurnLog, SampleSentAgain_IsKnown) {
  TurnLog log(kMicroBatches);
  log.add(rank(0), sample(0, 10));
  EXPECT_FALSE(log.is_new(rank(0), sample(0, 10)));
  EXPECT_TRUE(log.is_new(rank(1), sample(0, 10)));
  log.add(rank(1), sample(0, 10));
  EXPECT_FALSE(log.is_new(rank(1), sample(0, 10)));  // given out
}

TEST(TurnLog, SkippedMicroBatch_IsNotWaitedFor) {
  TurnLog log(kMicroBatches);
  Epoch epoch;
  epoch.number = EpochNumber(3);
  epoch.skipped = {{Step(1), MicroBatch(2)}};
  log.note_skipped(epoch);
  const auto in_epoch = [](uint64_t turn, uint32_t micro_batches) {
    RankSample reported = sample(turn, 10, micro_batches);
    reported.epoch = EpochNumber(3);
    return reported;
  };
  const std::vector<TurnCommitted> before = log.add(rank(0), in_epoch(0, 4));
  ASSERT_EQ(before.size(), 1u);
  EXPECT_EQ(before[0].skipped, 0u) << "of another step";
  const std::vector<TurnCommitted> turns = log.add(rank(0), in_epoch(1, 3));
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].skipped, 1u);
}

TEST(TurnLog, TurnThatStaysIncomplete_HoldsUpNobodyForLong) {
  TurnLog log(kMicroBatches);
  log.add(rank(0), sample(0, 10));
  log.add(rank(0), sample(1, 60));
  EXPECT_TRUE(log.add(rank(1), sample(1, 60)).empty());  // turn 0 may still come
  const int64_t later = 11 + TurnLog::kPatience.in_milliseconds();
  const std::vector<TurnCommitted> turns = log.add(rank(0), sample(2, later));
  ASSERT_EQ(turns.size(), 2u);
  EXPECT_EQ(turns[0].micro_batches, 2u);
  EXPECT_EQ(turns[1].micro_batches, kMicroBatches);
}

}  // namespace
}  // namespace paceline::control
