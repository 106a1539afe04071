// Goal: a path is dead when it is lost twice without a commit in between, and the right one of its
// hosts is kept out for long enough. Method: the ledger alone, by hand.
#include "core/control/path_ledger.h"

#include <gtest/gtest.h>

namespace paceline::control {
namespace {

constexpr HostId kA{1}, kB{2}, kC{3};
constexpr Instant kNow = Instant::from_nanoseconds(1'000'000'000);
const PathLedger::Path kAb = PathLedger::between(kB, kA);
const std::map<HostId, uint32_t> kOneEach = {{kA, 1}, {kB, 1}, {kC, 1}};

TEST(PathLedger, LostTwiceInARow_IsDead) {
  PathLedger paths;
  paths.lost(kAb, EpochNumber(3));
  EXPECT_FALSE(paths.dead_path());
  paths.lost(kAb, EpochNumber(4));
  EXPECT_EQ(paths.dead_path(), kAb);
}

TEST(PathLedger, ToldTwiceInOneEpoch_IsOneLoss) {
  PathLedger paths;
  paths.lost(kAb, EpochNumber(3));
  paths.lost(kAb, EpochNumber(3));
  EXPECT_FALSE(paths.dead_path());
}

TEST(PathLedger, CommitInALaterEpoch_StartsTheCountAgain) {
  PathLedger paths;
  paths.lost(kAb, EpochNumber(3));
  paths.committed_in(EpochNumber(3));  // made before the loss: says nothing
  paths.lost(kAb, EpochNumber(4));
  EXPECT_TRUE(paths.dead_path());
  paths.committed_in(EpochNumber(5));
  EXPECT_FALSE(paths.dead_path());
  paths.lost(kAb, EpochNumber(6));
  EXPECT_FALSE(paths.dead_path());
}

TEST(PathLedger, OtherPaths_AreCountedApart) {
  PathLedger paths;
  paths.lost(kAb, EpochNumber(3));
  paths.lost(PathLedger::between(kA, kC), EpochNumber(4));
  EXPECT_FALSE(paths.dead_path());
}

TEST(PathLedger, Choice_MoreLostPathsThenEarlierTroubleThenFewerMembersThenHigherId) {
  PathLedger paths;
  paths.lost(kAb, EpochNumber(3));
  EXPECT_EQ(paths.choose(kAb, kOneEach), kB);
  EXPECT_EQ(paths.choose(kAb, {{kA, 1}, {kB, 2}}), kA);
  paths.leave_out(kA, kNow);
  paths.lost(kAb, EpochNumber(4));
  EXPECT_EQ(paths.choose(kAb, {{kA, 2}, {kB, 1}}), kA) << "it was left out before";
  paths.lost(PathLedger::between(kB, kC), EpochNumber(4));
  EXPECT_EQ(paths.choose(kAb, {{kA, 2}, {kB, 2}}), kB) << "it has lost two paths";
}

TEST(PathLedger, PauseDoublesUpToALimit_AndIsForgottenWhenTheHostIsBack) {
  PathLedger paths;
  Duration expected = PathLedger::kFirstPause;
  for (int i = 0; i < 10; ++i) {
    paths.leave_out(kB, kNow);
    EXPECT_EQ(paths.pause_of(kB), expected);
    EXPECT_EQ(paths.next_return(kNow), kNow + expected);
    EXPECT_TRUE(paths.is_kept_out(kB, kNow + expected - Duration::nanoseconds(1)));
    EXPECT_FALSE(paths.is_kept_out(kB, kNow + expected));
    EXPECT_EQ(paths.kept_out_for(kB, kNow + expected - Duration::seconds(1)), Duration::seconds(1));
    EXPECT_EQ(paths.kept_out_for(kB, kNow + expected + Duration::seconds(1)), Duration());
    expected = std::min(expected * 2, PathLedger::kLongestPause);
  }
  paths.came_back(kB);
  paths.leave_out(kB, kNow);
  EXPECT_EQ(paths.pause_of(kB), PathLedger::kFirstPause);
}

}  // namespace
}  // namespace paceline::control
