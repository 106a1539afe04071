// Goal: a rank that is persistently slow is found within 20 turns, and no other one ever is.
// Method: synthetic samples with seeded noise.
#include "core/recovery/straggler_detector.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>

#include "base/rng.h"

namespace paceline::recovery {
namespace {

RankId rank_of(uint32_t slot) { return {SlotId(slot), Incarnation(1)}; }

uint64_t seed_of_run() {
  const char* given = std::getenv("PACELINE_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 7;
  std::printf("PACELINE_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

class Ranks {
 public:
  Ranks(uint32_t count, uint64_t seed) : percent_(count, 100), rng_(seed) {}

  void set_percent(uint32_t slot, int64_t percent) { percent_.at(slot) = percent; }
  void set_noise_percent(int64_t noise) { noise_percent_ = noise; }
  void set_long_steps(uint32_t parts_per_million) { long_ppm_ = parts_per_million; }
  // Waiting for a core: a program that computes there is later by as much, one that waits for an
  // accelerator absorbs it.
  void set_delay(uint32_t slot, Duration delay) { delay_[slot] = delay; }
  void set_absorbed_delay(uint32_t slot, Duration delay) { absorbed_[slot] = delay; }
  StragglerDetector& detector() { return detector_; }

  std::vector<PaceChange> turn() {
    const bool is_long = rng_.chance_ppm(long_ppm_);
    const uint64_t victim = rng_.below(percent_.size() + 1);  // the last: all of them
    for (uint32_t i = 0; i < percent_.size(); ++i) {
      int64_t cost_us = 5000 * percent_[i] / 100;
      cost_us += cost_us * rng_.between(-noise_percent_ * 10, noise_percent_ * 10) / 1000;
      if (is_long && (victim == i || victim == percent_.size())) cost_us *= 20;
      RankSample sample;
      sample.turn = turn_;
      sample.micro_batches = 2;
      sample.run_queue_delay = delay_[i] + absorbed_[i];
      sample.compute = Duration::microseconds(2 * cost_us) + delay_[i];
      detector_.add(rank_of(i), sample);
    }
    turn_ = turn_.next();
    return detector_.update();
  }
  // The first changes, and after how many turns; 0: none within `limit`.
  std::vector<PaceChange> run(int limit, int* turns) {
    for (*turns = 1; *turns <= limit; ++*turns)
      if (const std::vector<PaceChange> changes = turn(); !changes.empty()) return changes;
    *turns = 0;
    return {};
  }

 private:
  std::vector<int64_t> percent_;
  std::map<uint32_t, Duration> delay_, absorbed_;
  int64_t noise_percent_ = 3;
  uint32_t long_ppm_ = 0;
  Rng rng_;
  Turn turn_;
  StragglerDetector detector_;
};

TEST(StragglerDetector, TenPercentSlower_IsFoundWithinTwentyTurns) {
  Rng seeds(seed_of_run());
  for (int round = 0; round < 200; ++round) {
    Ranks ranks(8, seeds.next());
    ranks.set_long_steps(10'000);
    int turns = 0;
    ASSERT_TRUE(ranks.run(40, &turns).empty()) << "round " << round;
    const auto victim = static_cast<uint32_t>(round % 8);
    ranks.set_percent(victim, 110);
    const std::vector<PaceChange> changes = ranks.run(20, &turns);
    ASSERT_EQ(changes.size(), 1u) << "round " << round;
    EXPECT_EQ(changes[0].rank, rank_of(victim));
    EXPECT_TRUE(changes[0].is_slow);
  }
}

TEST(StragglerDetector, BackAtPace_IsFoundWithinTwentyTurns) {
  Ranks ranks(8, seed_of_run());
  ranks.set_percent(3, 110);
  int turns = 0;
  ASSERT_FALSE(ranks.run(20, &turns).empty());
  EXPECT_TRUE(ranks.run(100, &turns).empty()) << "it does not change its mind";
  ranks.set_percent(3, 100);
  const std::vector<PaceChange> changes = ranks.run(20, &turns);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].is_slow);
  EXPECT_LE(turns, 10);
  EXPECT_TRUE(ranks.run(100, &turns).empty());
}

TEST(StragglerDetector, CleanNoise_RaisesNoAlarm) {
  Rng seeds(seed_of_run());
  for (const int64_t noise : {1, 5, 15, 40}) {
    Ranks ranks(8, seeds.next());
    ranks.set_noise_percent(noise);
    ranks.set_long_steps(10'000);
    int turns = 0;
    const std::vector<PaceChange> changes = ranks.run(20'000, &turns);
    EXPECT_TRUE(changes.empty()) << "noise " << noise << " % at turn " << turns << ": "
                                 << changes[0].evidence;
  }
}

TEST(StragglerDetector, RunQueueDelay_IsNotHeldAgainstTheRank) {
  Ranks ranks(8, seed_of_run());
  ranks.set_delay(2, Duration::milliseconds(8));
  int turns = 0;
  EXPECT_TRUE(ranks.run(100, &turns).empty());
}

// Taken off the time of those that absorb it, it would make the two others look 25 % slower.
TEST(StragglerDetector, AbsorbedRunQueueDelay_MakesNobodySlow) {
  Ranks ranks(8, seed_of_run());
  for (uint32_t slot = 0; slot < 6; ++slot)
    ranks.set_absorbed_delay(slot, Duration::milliseconds(2));
  int turns = 0;
  EXPECT_TRUE(ranks.run(200, &turns).empty());
}

// By both readings 20 % slower than the others, and yet as fast.
TEST(StragglerDetector, DelayOfOneAndAbsorbedDelayOfOthers_MakeNobodySlow) {
  Ranks ranks(8, seed_of_run());
  ranks.set_delay(3, Duration::milliseconds(2));
  for (uint32_t slot = 0; slot < 8; ++slot)
    if (slot != 3) ranks.set_absorbed_delay(slot, Duration::milliseconds(2));
  int turns = 0;
  EXPECT_TRUE(ranks.run(200, &turns).empty());
}

TEST(StragglerDetector, SlowRankOnABusyMachine_IsFoundWithinTwentyTurns) {
  for (const bool is_absorbed : {false, true}) {
    Ranks ranks(8, seed_of_run());
    for (uint32_t slot = 0; slot < 8; ++slot) {
      if (is_absorbed) ranks.set_absorbed_delay(slot, Duration::microseconds(500));
      if (!is_absorbed) ranks.set_delay(slot, Duration::microseconds(500));
    }
    int turns = 0;
    ASSERT_TRUE(ranks.run(40, &turns).empty());
    ranks.set_percent(5, 115);
    const std::vector<PaceChange> changes = ranks.run(20, &turns);
    ASSERT_EQ(changes.size(), 1u);
    EXPECT_EQ(changes[0].rank, rank_of(5));
    const int64_t permille = changes[0].cost_ns * 1000 / changes[0].others_ns;
    EXPECT_GE(permille, 1100) << changes[0].evidence;
    EXPECT_LE(permille, 1200) << changes[0].evidence;
  }
}

// That the others are late by the clock does not make it as fast as they are.
TEST(StragglerDetector, LoadOnOtherHosts_DoesNotMakeASlowRankFast) {
  Ranks ranks(8, seed_of_run());
  ranks.set_percent(3, 110);
  int turns = 0;
  ASSERT_FALSE(ranks.run(20, &turns).empty());
  for (uint32_t slot = 0; slot < 8; ++slot)
    if (slot != 3) ranks.set_delay(slot, Duration::milliseconds(1));
  EXPECT_TRUE(ranks.run(100, &turns).empty());
}

// What is left after so much delay says nothing of the rank.
TEST(StragglerDetector, RunQueueDelayWithoutEnd_SaysNothing) {
  Ranks ranks(8, seed_of_run());
  for (uint32_t slot = 0; slot < 8; ++slot) ranks.set_delay(slot, Duration::milliseconds(50));
  ranks.set_percent(1, 150);
  int turns = 0;
  EXPECT_TRUE(ranks.run(100, &turns).empty());
  EXPECT_FALSE(ranks.detector().take_imbalance());
}

TEST(StragglerDetector, TwoRanks_TheSlowerIsNamed) {
  Ranks ranks(2, seed_of_run());
  ranks.set_percent(1, 150);
  int turns = 0;
  const std::vector<PaceChange> changes = ranks.run(20, &turns);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].rank, rank_of(1));
}

TEST(StragglerDetector, HalfOfTheRanksSlow_AllOfThemAreNamed) {
  Ranks ranks(8, seed_of_run());
  for (const uint32_t slot : {0u, 1u, 2u}) ranks.set_percent(slot, 130);
  for (int i = 0; i < 20; ++i) ranks.turn();
  EXPECT_EQ(ranks.detector().slow().size(), 3u);
}

TEST(StragglerDetector, Costs_AreAlikeButForTheSlow) {
  Ranks ranks(4, seed_of_run());
  ranks.set_percent(2, 120);
  for (int i = 0; i < 30; ++i) ranks.turn();
  const std::map<RankId, int64_t> costs = ranks.detector().costs_ns();
  ASSERT_EQ(costs.size(), 4u);
  EXPECT_EQ(costs.at(rank_of(0)), costs.at(rank_of(3)));
  const int64_t permille = costs.at(rank_of(2)) * 1000 / costs.at(rank_of(0));
  EXPECT_GE(permille, 1170);
  EXPECT_LE(permille, 1230);
}

TEST(StragglerDetector, Distrusted_IsNotNamedAgainForAWhile) {
  Ranks ranks(4, seed_of_run());
  ranks.set_percent(2, 120);
  for (int i = 0; i < 20; ++i) ranks.turn();
  ranks.detector().distrust(rank_of(2), 50);
  int turns = 0;
  ASSERT_FALSE(ranks.run(60, &turns).empty());
  EXPECT_GE(turns, 50);
}

TEST(StragglerDetector, UnevenWork_IsImbalanceAndNobodysFault) {
  Ranks ranks(8, seed_of_run());
  ranks.set_noise_percent(40);
  int turns = 0;
  EXPECT_TRUE(ranks.run(200, &turns).empty());
  EXPECT_TRUE(ranks.detector().take_imbalance());
  EXPECT_FALSE(ranks.detector().take_imbalance()) << "told once";
}

TEST(StragglerDetector, EvenWork_IsNoImbalance) {
  Ranks ranks(8, seed_of_run());
  for (int i = 0; i < 200; ++i) ranks.turn();
  EXPECT_FALSE(ranks.detector().take_imbalance());
}

}  // namespace
}  // namespace paceline::recovery
