// Goal: all members pass a barrier if and only if all have come to it, through epochs that begin in
// the middle; a member that goes on without it is named, and nobody waits for it for ever. Method:
// all members in one thread, arrivals, deliveries and losses in random order (seed printed).
#include "core/rank/barrier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "base/rng.h"

namespace paceline::rank {
namespace {

constexpr Turn kTurn{5};

// The members of a job at one turn, and what is under way between them.
class Members {
 public:
  explicit Members(MemberIndex count) : barriers_(count), is_member_(count, true) { next_epoch(); }

  void arrive(size_t rank) {
    barriers_[rank].arrive();
    collect(rank);
  }
  void go_on(size_t rank) {
    barriers_[rank].go_on();
    collect(rank);
  }
  // The others begin anew as members of a smaller epoch.
  void lose(size_t rank) {
    is_member_[rank] = false;
    next_epoch();
  }
  // A rank that has healed and stands at this turn becomes a member.
  void join(const Barrier& barrier) {
    barriers_.push_back(barrier);
    is_member_.push_back(true);
    next_epoch();
  }
  void next_epoch() {
    under_way_.clear();
    ranks_.clear();
    for (size_t rank = 0; rank < barriers_.size(); ++rank) {
      barriers_[rank].stop();
      if (is_member_[rank]) ranks_.push_back(rank);
    }
    const auto members = static_cast<MemberIndex>(ranks_.size());
    for (MemberIndex self = 0; self < members; ++self)
      barriers_[ranks_[self]].enter({.turn = kTurn, .self = self, .members = members});
    for (const size_t rank : ranks_) collect(rank);
  }
  void deliver(size_t index) {
    const Sent sent = under_way_[index];
    under_way_.erase(under_way_.begin() + static_cast<ptrdiff_t>(index));
    EXPECT_TRUE(barriers_[sent.to].receive(sent.from, sent.message));
    collect(sent.to);
  }
  void deliver_all() {
    while (!under_way_.empty()) deliver(0);
  }
  size_t under_way() const { return under_way_.size(); }
  const std::vector<size_t>& ranks() const { return ranks_; }
  Barrier& at(size_t rank) { return barriers_[rank]; }

 private:
  struct Sent {
    MemberIndex from;
    size_t to;
    BarrierMessage message;
  };
  void collect(size_t rank) {
    const auto self = std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin();
    for (const OutgoingBarrier& out : barriers_[rank].take_outgoing())
      under_way_.push_back({static_cast<MemberIndex>(self), ranks_[out.to], out.message});
  }

  std::vector<Barrier> barriers_;
  std::vector<bool> is_member_;
  std::vector<size_t> ranks_;  // by member of the running epoch
  std::deque<Sent> under_way_;
};

uint64_t seed_of_run() {
  const char* given = std::getenv("PACELINE_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20260401;
}

// What all have come to in the end, and what one may have passed on the way.
TEST(Barrier, RandomOrdersAndLosses_PassedIffAllHaveCome) {
  constexpr uint32_t kBarriers = 3;
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE("repeat with PACELINE_TEST_SEED=" + std::to_string(seed));
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Rng rng(seed);
  for (int round = 0; round < 2000; ++round) {
    const auto count = static_cast<MemberIndex>(1 + rng.below(7));
    Members members(count);
    std::vector<uint32_t> level(count);
    for (;;) {
      std::vector<size_t> may_arrive;
      for (const size_t rank : members.ranks())
        if (members.at(rank).is_passed() && level[rank] < kBarriers) may_arrive.push_back(rank);
      const size_t choices = may_arrive.size() + members.under_way();
      if (choices == 0) break;
      const size_t choice = rng.below(choices);
      if (members.ranks().size() > 1 && rng.below(20) == 0) {
        members.lose(members.ranks()[rng.below(members.ranks().size())]);
      } else if (choice < may_arrive.size()) {
        ++level[may_arrive[choice]];
        members.arrive(may_arrive[choice]);
      } else {
        members.deliver(choice - may_arrive.size());
      }
      for (const size_t rank : members.ranks()) {
        if (!members.at(rank).is_passed()) continue;
        for (const size_t other : members.ranks()) ASSERT_GE(level[other], level[rank]);
      }
    }
    for (const size_t rank : members.ranks()) {
      ASSERT_TRUE(members.at(rank).is_passed());
      ASSERT_EQ(level[rank], kBarriers);
    }
  }
}

TEST(Barrier, LossOfTheOnlyOneThatHasNotCome_LetsTheOthersPass) {
  Members members(4);
  for (const size_t rank : {0u, 1u, 3u}) members.arrive(rank);
  members.deliver_all();
  EXPECT_FALSE(members.at(0).is_passed());
  members.lose(2);
  members.deliver_all();
  for (const size_t rank : {0u, 1u, 3u}) EXPECT_TRUE(members.at(rank).is_passed()) << rank;
}

// Who has passed may be in the step already when an epoch begins in which others still wait.
TEST(Barrier, MemberThatHasPassedAndGoneOn_StillLetsTheOthersPass) {
  Members members(3);
  for (const size_t rank : {0u, 1u, 2u}) members.arrive(rank);
  while (!members.at(0).is_passed()) members.deliver(0);
  members.go_on(0);
  members.lose(1);
  members.deliver_all();
  EXPECT_TRUE(members.at(2).is_passed());
  EXPECT_EQ(members.at(2).refused_by(), std::nullopt);
}

// Before the first word of the barrier has come to it, after that, and in a later epoch.
TEST(Barrier, MemberThatGoesOnWithoutIt_IsNamedToAll) {
  for (const bool goes_first : {true, false}) {
    Members members(4);
    if (goes_first) members.go_on(2);
    for (const size_t rank : {0u, 1u, 3u}) members.arrive(rank);
    members.deliver_all();
    if (!goes_first) {
      EXPECT_EQ(members.at(0).refused_by(), std::nullopt);
      members.go_on(2);
      members.deliver_all();
    }
    for (const bool is_next_epoch : {false, true}) {
      if (is_next_epoch) {
        members.next_epoch();
        members.deliver_all();
      }
      for (const size_t rank : {0u, 1u, 3u}) {
        EXPECT_EQ(members.at(rank).refused_by(), MemberIndex{2}) << rank;
        EXPECT_FALSE(members.at(rank).is_passed());
      }
    }
  }
}

// Its program has called all three barriers of the turn while the rank was healing.
TEST(Barrier, JoinerThatIsAhead_IsWaitedForInNone) {
  Members members(3);
  for (const size_t rank : {0u, 1u, 2u}) members.arrive(rank);
  Barrier joiner;
  joiner.committed({.turn = kTurn});
  for (int i = 0; i < 3; ++i) joiner.arrive();
  members.join(joiner);
  members.go_on(3);
  for (int barrier = 1; barrier <= 3; ++barrier) {
    members.deliver_all();
    for (const size_t rank : {0u, 1u, 2u}) {
      EXPECT_TRUE(members.at(rank).is_passed()) << rank;
      if (barrier < 3) members.arrive(rank);
      EXPECT_EQ(members.at(rank).is_passed(), barrier == 3);
    }
  }
}

// Copies are made behind the barriers of a turn: who starts from one comes to none of them.
TEST(Barrier, JoinerWithACopyOfThisTurn_IsWaitedForInNone) {
  Members members(2);
  for (const size_t rank : {0u, 1u}) members.arrive(rank);
  Barrier joiner;
  joiner.loaded(kTurn);
  members.join(joiner);
  members.go_on(2);
  members.deliver_all();
  for (const size_t rank : {0u, 1u}) {
    EXPECT_TRUE(members.at(rank).is_passed()) << rank;
    EXPECT_EQ(members.at(rank).refused_by(), std::nullopt);
  }
  members.go_on(0);
  members.arrive(1);
  members.deliver_all();
  EXPECT_EQ(members.at(1).refused_by(), MemberIndex{0}) << "the joiner between them passes it on";
}

TEST(Barrier, NextTurn_BeginsWithNone) {
  Members members(2);
  members.arrive(0);
  members.deliver_all();
  for (const size_t rank : {0u, 1u}) members.at(rank).committed({.turn = kTurn.next()});
  members.arrive(1);
  EXPECT_FALSE(members.at(1).is_passed()) << "what was said of the turn before is void";
  members.arrive(0);
  members.deliver_all();
  EXPECT_TRUE(members.at(1).is_passed());
}

TEST(Barrier, FlaggedRound_KeepsTheStepOpen) {
  Members members(2);
  members.go_on(0);
  members.at(0).committed({.turn = kTurn.next(), .is_open = true});
  members.at(1).committed({.turn = kTurn.next(), .is_open = false});
  members.arrive(1);
  members.deliver_all();
  EXPECT_EQ(members.at(1).refused_by(), MemberIndex{0});
}

TEST(Barrier, BetweenPromiseAndDecision_NothingIsSentOrPassed) {
  Barrier barrier;
  barrier.enter({.turn = kTurn, .self = 0, .members = 1});
  barrier.stop();
  barrier.arrive();
  EXPECT_FALSE(barrier.is_passed());
  EXPECT_TRUE(barrier.take_outgoing().empty());
  barrier.enter({.turn = kTurn, .self = 0, .members = 1});
  EXPECT_TRUE(barrier.is_passed());
}

TEST(Barrier, MessageOfNoHonestRank_IsRefused) {
  Barrier barrier;
  barrier.enter({.turn = kTurn, .self = 0, .members = 4});
  EXPECT_FALSE(barrier.receive(3, {.level = 0}));
  EXPECT_FALSE(barrier.receive(1, {.level = 1})) << "hop 0 comes from the member before";
  EXPECT_FALSE(barrier.receive(2, {.level = 1, .hop = 2})) << "four members have two hops";
  EXPECT_FALSE(barrier.receive(3, {.level = 1, .hop = kMaxHops}));
  EXPECT_TRUE(barrier.receive(3, {.level = 1}));
  EXPECT_TRUE(barrier.receive(2, {.level = 1, .hop = 1}));
}

}  // namespace
}  // namespace paceline::rank
