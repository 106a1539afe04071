// Goal: every member of a VoteExchange learns that all have voted, exactly then, and what all votes
// name. Method: all members in one thread, casts and deliveries in random order (seed printed).
#include "core/rank/vote_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/rng.h"

namespace paceline::rank {
namespace {

constexpr EpochNumber kEpoch{3};
constexpr Turn kTurn{5};

uint64_t seed_of_run() {
  const char* given = std::getenv("PACELINE_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20240611;
}

// The members of one exchange and what is under way between them.
class Exchange {
 public:
  explicit Exchange(MemberIndex members) {
    for (MemberIndex i = 0; i < members; ++i)
      members_.push_back(VoteExchange(kEpoch, kTurn, i, members));
  }

  void cast(MemberIndex member, EpochNumber carried) {
    members_[member].cast(carried);
    ++cast_count_;
    collect(member);
  }
  // Delivers message `index` of those under way, and maybe a second time.
  void deliver(size_t index, size_t copies) {
    const OutgoingVote message = under_way_[index];
    under_way_.erase(under_way_.begin() + static_cast<ptrdiff_t>(index));
    for (size_t i = 0; i < copies; ++i) members_[message.to].receive(message.vote);
    collect(message.to);
  }
  size_t under_way() const { return under_way_.size(); }
  size_t sent_count() const { return sent_count_; }
  bool has_everybody_cast() const { return cast_count_ == members_.size(); }
  const VoteExchange& at(MemberIndex member) const { return members_[member]; }
  size_t complete_count() const {
    return static_cast<size_t>(std::count_if(members_.begin(), members_.end(),
                                             [](const auto& m) { return m.is_complete(); }));
  }

 private:
  void collect(MemberIndex member) {
    for (const OutgoingVote& outgoing : members_[member].take_outgoing()) {
      under_way_.push_back(outgoing);
      ++sent_count_;
    }
  }
  std::vector<VoteExchange> members_;
  std::vector<OutgoingVote> under_way_;
  size_t cast_count_ = 0;
  size_t sent_count_ = 0;
};

// Casts everybody's vote and delivers everything, in an order drawn from rng. Nobody may be
// complete before the last cast.
void run(Exchange& exchange, const std::vector<EpochNumber>& carried, Rng& rng) {
  std::vector<MemberIndex> to_cast;  // in any order
  for (MemberIndex i = 0; i < carried.size(); ++i) to_cast.push_back(i);
  while (!to_cast.empty() || exchange.under_way() > 0) {
    const size_t choice = rng.below(to_cast.size() + exchange.under_way());
    if (choice < to_cast.size()) {
      const MemberIndex member = to_cast[choice];
      to_cast.erase(to_cast.begin() + static_cast<ptrdiff_t>(choice));
      exchange.cast(member, carried[member]);
    } else {
      exchange.deliver(choice - to_cast.size(), 1 + rng.below(2));
    }
    if (!exchange.has_everybody_cast()) {
      ASSERT_EQ(exchange.complete_count(), 0u);
    }
  }
}

TEST(VoteExchange, RandomOrders_CompleteIffAllHaveCast) {
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE("repeat with PACELINE_TEST_SEED=" + std::to_string(seed));
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Rng rng(seed);
  for (MemberIndex n = 1; n <= 9; ++n) {
    for (int round = 0; round < 300; ++round) {
      Exchange exchange(n);
      std::vector<EpochNumber> carried;
      for (MemberIndex i = 0; i < n; ++i) carried.push_back(EpochNumber(rng.below(8) == 0 ? 7 : 4));
      run(exchange, carried, rng);
      ASSERT_EQ(exchange.complete_count(), n);
      const bool is_uniform = std::equal(carried.begin() + 1, carried.end(), carried.begin());
      for (MemberIndex i = 0; i < n; ++i)
        ASSERT_EQ(exchange.at(i).carried(), is_uniform ? carried[0] : EpochNumber(0)) << "n " << n;
    }
  }
}

TEST(VoteExchange, AnyOneMissing_NobodyCompletes) {
  for (MemberIndex n = 2; n <= 9; ++n) {
    for (MemberIndex missing = 0; missing < n; ++missing) {
      Exchange exchange(n);
      for (MemberIndex i = 0; i < n; ++i)
        if (i != missing) exchange.cast(i, EpochNumber(0));
      while (exchange.under_way() > 0) exchange.deliver(0, 1);
      EXPECT_EQ(exchange.complete_count(), 0u) << n << " without " << missing;
    }
  }
}

TEST(VoteExchange, Messages_AreMembersTimesHops) {
  const size_t hops[] = {0, 0, 1, 2, 2, 3, 3, 3, 3, 4};
  for (MemberIndex n = 1; n <= 9; ++n) {
    Exchange exchange(n);
    Rng rng(n);
    run(exchange, std::vector<EpochNumber>(n, EpochNumber(0)), rng);
    EXPECT_EQ(exchange.sent_count(), n * hops[n]) << n;
  }
}

TEST(VoteExchange, OneMember_CompletesByItsOwnVote) {
  VoteExchange alone(kEpoch, kTurn, 0, 1);
  EXPECT_FALSE(alone.is_complete());
  alone.cast(EpochNumber(9));
  EXPECT_TRUE(alone.take_outgoing().empty());
  EXPECT_TRUE(alone.is_complete());
  EXPECT_EQ(alone.carried(), EpochNumber(9));
}

TEST(VoteExchange, LargestJob_FitsTheHops) {
  const VoteExchange largest(kEpoch, kTurn, 0, static_cast<MemberIndex>(kMaxRanks));
  EXPECT_FALSE(largest.is_complete());
}

TEST(VoteExchangeDeathTest, SecondVote_IsABug) {
  VoteExchange exchange(kEpoch, kTurn, 0, 2);
  exchange.cast(EpochNumber(0));
  EXPECT_DEATH(exchange.cast(EpochNumber(0)), "has_cast_");
}

}  // namespace
}  // namespace paceline::rank
