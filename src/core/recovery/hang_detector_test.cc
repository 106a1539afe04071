// Goal: a hung rank is named within its limit with the right class, and nothing else ever is.
// Method: synthetic windows of a small cluster, 50 ms apart, judged as the controller does.
#include "core/recovery/hang_detector.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/rng.h"
#include "core/recovery/limits.h"

namespace paceline::recovery {
namespace {

constexpr Duration ms(int64_t n) { return Duration::milliseconds(n); }

RankId rank_of(uint32_t slot) { return {SlotId(slot), Incarnation(1)}; }

// Ranks of one host each, in lockstep: every step they compute, and wait for the slowest.
class Cluster {
 public:
  explicit Cluster(uint32_t ranks, Duration step = ms(50)) : step_(step) {
    for (uint32_t i = 0; i < ranks; ++i) {
      RankView view;
      view.rank = rank_of(i);
      view.phase = RankPhase::Wait;
      views_.push_back(view);
      members_.push_back(rank_of(i));
    }
  }

  RankView& view(uint32_t slot) { return views_.at(slot); }
  Instant now() const { return now_; }
  HangDetector& detector() { return detector_; }
  RunHistory& history() { return history_; }

  // All commit turn after turn, with these longest stays.
  void commit(uint64_t turns, Duration longest_compute = ms(5), Duration longest_outside = ms(1)) {
    for (uint64_t i = 0; i < turns; ++i) {
      now_ = now_ + step_;
      for (RankView& each : views_) {
        RankSample sample;
        sample.turn = each.committed;
        sample.committed = now_;
        sample.micro_batches = 2;
        sample.longest_compute = longest_compute;
        sample.longest_outside = longest_outside;
        each.committed = each.committed.next();
        each.phase_since = now_;
        each.phase = RankPhase::Wait;
        each.last_beat = now_;
        history_.add(each.rank, sample);
      }
      observe();
    }
    for (RankView& each : views_) each.phase_since = now_ + ms(1);  // of the next turn
  }

  void enter(uint32_t slot, RankPhase phase) {
    view(slot).phase = phase;
    view(slot).phase_since = now_ + ms(1);
  }

  // One window; `blind` of it unseen by the agents.
  void pass_window(Duration blind = Duration()) {
    now_ = now_ + ms(50) + blind;
    for (RankView& each : views_)
      if (!each.is_stopped) each.last_beat = now_;
    observe(blind);
  }
  std::vector<HangFinding> window(Duration blind = Duration()) {
    pass_window(blind);
    return detector_.judge(now_, members_, history_);
  }
  // First findings within `limit`; `now()` is their time.
  std::vector<HangFinding> run(Duration limit) {
    const Instant until = now_ + limit;
    while (now_ < until)
      if (const std::vector<HangFinding> findings = window(); !findings.empty()) return findings;
    return {};
  }

 private:
  void observe(Duration blind = Duration()) {
    for (const RankView& each : views_) {
      Window window;
      window.at = now_;
      window.blind = blind;
      window.views = {each};
      detector_.observe(now_, window);
    }
  }

  Duration step_;
  Instant now_ = Instant() + Duration::seconds(100);
  std::vector<RankView> views_;
  std::vector<RankId> members_;
  HangDetector detector_;
  RunHistory history_;
};

void expect_only(const std::vector<HangFinding>& findings, uint32_t slot, HangClass hang_class) {
  ASSERT_EQ(findings.size(), 1u);
  ASSERT_TRUE(findings[0].rank);
  EXPECT_EQ(*findings[0].rank, rank_of(slot));
  EXPECT_EQ(findings[0].hang_class, hang_class) << findings[0].evidence;
  EXPECT_FALSE(findings[0].evidence.empty());
}

TEST(HangDetector, StoppedRank_IsFoundWithinOneSecond) {
  Cluster cluster(8);
  cluster.commit(40);
  const Instant fault = cluster.now();
  cluster.view(3).is_stopped = true;
  expect_only(cluster.run(Duration::seconds(5)), 3, HangClass::Stopped);
  EXPECT_LE(cluster.now() - fault, ms(750));
}

TEST(HangDetector, StoppedRank_OfLongSteps_IsGivenFourOfThem) {
  Cluster cluster(4, ms(500));
  cluster.commit(40);
  const Instant fault = cluster.now();
  cluster.view(0).is_stopped = true;
  expect_only(cluster.run(Duration::seconds(5)), 0, HangClass::Stopped);
  EXPECT_GE(cluster.now() - fault, ms(2000));
  EXPECT_LE(cluster.now() - fault, ms(2500));
}

TEST(HangDetector, RankInItsMicroBatch_HasNeverEntered) {
  Cluster cluster(8);
  cluster.commit(40);
  const Instant fault = cluster.now();
  cluster.enter(5, RankPhase::Compute);
  expect_only(cluster.run(Duration::seconds(10)), 5, HangClass::NeverEntered);
  EXPECT_GE(cluster.now() - fault, Duration::seconds(2));
  EXPECT_LE(cluster.now() - fault, ms(2500));
}

TEST(HangDetector, RefusedCall_IsMismatchedAndFoundWithinOneSecond) {
  Cluster cluster(8);
  cluster.commit(40);
  const Instant fault = cluster.now();
  cluster.enter(5, RankPhase::Compute);
  cluster.view(5).refused_since = fault + ms(2);
  expect_only(cluster.run(Duration::seconds(10)), 5, HangClass::Mismatched);
  EXPECT_LE(cluster.now() - fault, ms(600));
}

// A program may look at the error and do what it had left out.
TEST(HangDetector, RefusedCall_ThatIsMadeGood_IsForgotten) {
  Cluster cluster(8);
  cluster.commit(40);
  cluster.enter(5, RankPhase::Compute);
  cluster.view(5).refused_since = cluster.now() + ms(2);
  EXPECT_TRUE(cluster.run(ms(250)).empty());
  cluster.view(5).refused_since = Instant();
  EXPECT_TRUE(cluster.run(Duration::seconds(1)).empty());
}

// Nobody waits for it yet: there is nothing that it has kept from ending.
TEST(HangDetector, RefusedCall_WhileOthersCompute_IsNotJudged) {
  Cluster cluster(4);
  cluster.commit(40);
  cluster.enter(2, RankPhase::Compute);
  cluster.view(2).refused_since = cluster.now() + ms(2);
  cluster.enter(3, RankPhase::Compute);
  EXPECT_TRUE(cluster.run(Duration::seconds(1)).empty());
}

TEST(HangDetector, RankInItsOwnCode_HasNeverEntered) {
  Cluster cluster(8);
  cluster.commit(40);
  cluster.enter(5, RankPhase::Outside);
  expect_only(cluster.run(Duration::seconds(10)), 5, HangClass::NeverEntered);
}

// Between two steps, when all turns are committed and the next is not begun.
TEST(HangDetector, RankThatDoesNotComeToABarrier_HasNeverEntered) {
  Cluster cluster(4);
  cluster.commit(40);
  const Instant committed = cluster.now();
  RankSample last;
  last.turn = Turn(39);
  last.committed = committed;
  for (uint32_t slot = 0; slot < 4; ++slot) cluster.detector().add_sample(rank_of(slot), last);
  for (const uint32_t slot : {0u, 1u, 3u}) cluster.enter(slot, RankPhase::Wait);
  cluster.enter(2, RankPhase::Outside);
  expect_only(cluster.run(Duration::seconds(10)), 2, HangClass::NeverEntered);
  EXPECT_LE(cluster.now() - committed, ms(2500));
}

TEST(HangDetector, FinishStepThatDoesNotReturn_IsStuck) {
  Cluster cluster(4);
  cluster.commit(40);
  const Instant committed = cluster.now();
  RankSample last;
  last.turn = Turn(39);
  last.committed = committed;
  cluster.detector().add_sample(rank_of(1), last);
  cluster.view(1).phase_since = committed - ms(10);  // came before the commit, has not left since
  expect_only(cluster.run(Duration::seconds(10)), 1, HangClass::Stuck);
  EXPECT_LE(cluster.now() - committed, ms(2500));
}

TEST(HangDetector, LongestPauseOfTheRun_RaisesTheLimit) {
  Cluster cluster(8);
  cluster.commit(40, Duration::seconds(4));
  const Instant fault = cluster.now();
  cluster.enter(5, RankPhase::Compute);
  expect_only(cluster.run(Duration::seconds(10)), 5, HangClass::NeverEntered);
  EXPECT_GE(cluster.now() - fault, Duration::seconds(6));
  EXPECT_LE(cluster.now() - fault, ms(6500));
}

TEST(HangDetector, TracedRank_IsToldAndNotToBeActedOn) {
  Cluster cluster(4);
  cluster.commit(40);
  cluster.enter(2, RankPhase::Compute);
  cluster.view(2).is_traced = true;
  const std::vector<HangFinding> findings = cluster.run(Duration::seconds(10));
  expect_only(findings, 2, HangClass::Traced);
  EXPECT_FALSE(findings[0].may_act);
}

TEST(HangDetector, RankThatWasTraced_GetsTheTimeBack) {
  Cluster cluster(4);
  cluster.commit(40);
  cluster.enter(2, RankPhase::Compute);
  cluster.view(2).is_traced = true;
  cluster.run(Duration::seconds(10));
  for (int i = 0; i < 100; ++i) cluster.window();
  cluster.view(2).is_traced = false;
  EXPECT_TRUE(cluster.run(ms(1500)).empty());
  expect_only(cluster.run(Duration::seconds(2)), 2, HangClass::NeverEntered);
}

TEST(HangDetector, EverythingStopped_IsNobodysFault) {
  Cluster cluster(4);
  cluster.commit(40);
  for (uint32_t i = 0; i < 4; ++i) cluster.view(i).is_stopped = true;
  EXPECT_TRUE(cluster.run(Duration::seconds(20)).empty());
}

TEST(HangDetector, AnotherRankStillBusy_DelaysTheVerdict) {
  Cluster cluster(4);
  cluster.commit(40);
  cluster.enter(2, RankPhase::Compute);
  for (int i = 0; i < 80; ++i) {
    cluster.enter(3, RankPhase::Outside);
    EXPECT_TRUE(cluster.window().empty());
  }
  cluster.enter(3, RankPhase::Wait);
  expect_only(cluster.run(Duration::seconds(1)), 2, HangClass::NeverEntered);
}

TEST(HangDetector, MostRanksAway_IsWhatTheProgramDoes) {
  Cluster cluster(4);
  cluster.commit(40);
  for (uint32_t i = 0; i < 3; ++i) cluster.enter(i, RankPhase::Outside);
  EXPECT_TRUE(cluster.run(Duration::seconds(20)).empty());
}

TEST(HangDetector, BlindWindow_ExtendsTheLimit) {
  Cluster cluster(4);
  cluster.commit(40);
  cluster.enter(2, RankPhase::Compute);
  const Instant fault = cluster.now();
  EXPECT_TRUE(cluster.window(Duration::seconds(3)).empty());
  expect_only(cluster.run(Duration::seconds(10)), 2, HangClass::NeverEntered);
  EXPECT_GE(cluster.now() - fault, Duration::seconds(5));
}

TEST(HangDetector, BlindObserver_ExtendsTheLimit) {
  Cluster cluster(4);
  cluster.commit(40);
  cluster.enter(2, RankPhase::Compute);
  for (int i = 0; i < 30; ++i) cluster.window();
  cluster.detector().credit_all(Duration::seconds(3));
  EXPECT_TRUE(cluster.run(Duration::seconds(3)).empty());
  expect_only(cluster.run(Duration::seconds(2)), 2, HangClass::NeverEntered);
}

TEST(HangDetector, BeforeTheFirstCommit_AMinuteIsGiven) {
  Cluster cluster(4);
  cluster.enter(2, RankPhase::Compute);
  cluster.view(1).is_stopped = true;
  EXPECT_TRUE(cluster.run(Duration::seconds(59)).empty());
}

TEST(HangDetector, WarmUp_TenSecondsAreGiven) {
  Cluster cluster(4);
  cluster.commit(5);
  cluster.enter(2, RankPhase::Compute);
  EXPECT_TRUE(cluster.run(Duration::seconds(10)).empty());
  expect_only(cluster.run(Duration::seconds(1)), 2, HangClass::NeverEntered);
}

// Ranks 0 to 2 are members and go on; rank 3 is on its way.
std::optional<HangFinding> judged_as_joiner(Cluster& cluster, Duration limit) {
  const std::vector<RankId> members = {rank_of(0), rank_of(1), rank_of(2)};
  for (const Instant until = cluster.now() + limit; cluster.now() < until;) {
    cluster.pass_window();
    if (const std::optional<HangFinding> finding =
            cluster.detector().judge_joiner(cluster.now(), rank_of(3), members, cluster.history()))
      return finding;
  }
  return std::nullopt;
}

TEST(HangDetector, JoinerInTheProgramsCode_IsGivenTenSeconds) {
  for (const RankPhase phase : {RankPhase::Trial, RankPhase::Outside}) {
    Cluster cluster(4);
    cluster.commit(40);
    cluster.enter(3, phase);
    EXPECT_FALSE(judged_as_joiner(cluster, Duration::seconds(10)));
    const std::optional<HangFinding> finding = judged_as_joiner(cluster, ms(500));
    ASSERT_TRUE(finding) << "phase " << static_cast<int>(phase);
    EXPECT_EQ(finding->hang_class, HangClass::NeverEntered);
    EXPECT_TRUE(finding->may_act);
    const bool is_trial = finding->evidence.find("trial") != std::string::npos;
    EXPECT_EQ(is_trial, phase == RankPhase::Trial) << finding->evidence;
  }
}

TEST(HangDetector, JoinerInTheProgramsCode_IsGivenFourOfTheLongestStays) {
  constexpr Duration kLong = Duration::seconds(5);
  for (const RankPhase phase : {RankPhase::Trial, RankPhase::Outside}) {
    Cluster cluster(4);
    const bool is_trial = phase == RankPhase::Trial;
    cluster.commit(40, is_trial ? kLong : ms(5), is_trial ? ms(1) : kLong);
    cluster.enter(3, phase);
    EXPECT_FALSE(judged_as_joiner(cluster, kLong * 4));
    EXPECT_TRUE(judged_as_joiner(cluster, ms(500))) << "phase " << static_cast<int>(phase);
  }
}

TEST(HangDetector, JoinerThatLoadsOrHeals_IsGivenAllTheTime) {
  for (const RankPhase phase : {RankPhase::Starting, RankPhase::Heal, RankPhase::Wait}) {
    Cluster cluster(4);
    cluster.commit(40);
    cluster.enter(3, phase);
    EXPECT_FALSE(judged_as_joiner(cluster, Duration::seconds(60)));
  }
}

TEST(HangDetector, AllInTheCollectiveForEver_IsFoundWithoutACulprit) {
  Cluster cluster(4);
  cluster.commit(40);
  const std::vector<HangFinding> findings = cluster.run(Duration::seconds(20));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_FALSE(findings[0].rank);
  EXPECT_EQ(findings[0].hang_class, HangClass::Stuck);
}

TEST(HangDetector, LateWindowOfAnEarlierProcess_ChangesNothing) {
  Cluster cluster(4);
  cluster.commit(40);
  Window late{
      .at = cluster.now(), .blind = {}, .views = {cluster.view(2)}, .samples = {}, .metrics = {}};
  const RankId next{SlotId(2), Incarnation(2)};
  cluster.view(2).rank = next;
  cluster.window();
  cluster.detector().observe(cluster.now(), late);
  EXPECT_TRUE(cluster.detector().has_moved_since(next, Instant()));
  EXPECT_FALSE(cluster.detector().has_moved_since(rank_of(2), Instant()));
}

TEST(HangDetector, RankThatNoJobCanHave_IsNotWatched) {
  HangDetector detector;
  RankView view;
  view.rank = rank_of(UINT32_MAX);
  const Instant now = Instant() + Duration::seconds(1);
  detector.observe(now, {.at = now, .blind = {}, .views = {view}, .samples = {}, .metrics = {}});
  EXPECT_FALSE(detector.has_moved_since(view.rank, Instant()));
}

// Steps of random length, 1 % of them 20 times as long on one rank or on all, unannounced; agents
// that are late now and then.
TEST(HangDetector, CleanNoise_RaisesNoAlarm) {
  const char* given = std::getenv("PACELINE_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20240611;
  std::printf("PACELINE_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Rng rng(seed);
  Cluster cluster(8, ms(100));
  cluster.commit(3);
  for (int turn = 0; turn < 4000; ++turn) {
    const bool is_long = rng.chance_ppm(10'000);
    const bool is_all = rng.chance_ppm(500'000);
    const uint64_t victim = rng.below(8);
    const RankPhase phase = rng.chance_ppm(500'000) ? RankPhase::Compute : RankPhase::Outside;
    const int64_t length = 100 * rng.between(90, 110) / 100;
    const int64_t stay = is_long ? 20 * length : length;
    for (uint32_t i = 0; i < 8; ++i)
      if (is_all || i == victim) cluster.enter(i, phase);
    for (int64_t at = 0; at < stay; at += 50) {
      const Duration blind = rng.chance_ppm(2'000) ? Duration::seconds(3) : Duration();
      const std::vector<HangFinding> findings = cluster.window(blind);
      ASSERT_TRUE(findings.empty()) << "turn " << turn << ": " << findings[0].evidence;
    }
    cluster.commit(1, ms(phase == RankPhase::Compute ? stay : 5),
                   ms(phase == RankPhase::Outside ? stay : 1));
  }
}

}  // namespace
}  // namespace paceline::recovery
