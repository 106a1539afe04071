// Goal: whatever the order of events, every member ends with the sum of all contributions, sends
// each chunk once per half, and refuses everything else. Method: all members in one thread, FIFO
// links between neighbours, one random event at a time.
#include "core/collective/ring.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <iostream>

#include "base/rng.h"

namespace paceline::collective {
namespace {

struct Message {
  uint32_t chunk = 0;
  uint32_t hop = 0;
  uint64_t data = 0;
};

class Ring {
 public:
  Ring(MemberIndex members, uint32_t chunks, Rng& rng)
      : rng_(rng), links_(members), own_(members), sum_(members), completed_(members) {
    for (MemberIndex i = 0; i < members; ++i) {
      engines_.emplace_back(RingReduction::Shape{members, i, chunks});
      for (uint32_t c = 0; c < chunks; ++c) own_[i].push_back(rng.next());
      sum_[i].resize(chunks);
    }
  }

  // One random event that is possible; false when none is.
  bool step() {
    std::vector<std::pair<bool, size_t>> possible;
    for (size_t i = 0; i < engines_.size(); ++i) {
      if (!engines_[i].is_own_ready()) possible.emplace_back(true, i);
      if (!links_[i].empty()) possible.emplace_back(false, i);
    }
    if (possible.empty()) return false;
    const auto [is_own, member] = possible[rng_.below(possible.size())];
    if (is_own) {
      engines_[member].own_ready();
      run(member);
    } else {
      const Message message = links_[member].front();
      links_[member].pop_front();
      deliver(member, message);
    }
    return true;
  }

  void expect_sums() const {
    for (size_t c = 0; c < own_[0].size(); ++c) {
      uint64_t expected = 0;
      for (const auto& own : own_) expected += own[c];
      for (size_t i = 0; i < engines_.size(); ++i) EXPECT_EQ(sum_[i][c], expected) << i << " " << c;
    }
    for (size_t i = 0; i < engines_.size(); ++i) EXPECT_EQ(completed_[i], 1) << i;
    EXPECT_EQ(messages_, own_[0].size() * 2 * (engines_.size() - 1));
  }

 private:
  void deliver(size_t member, const Message& message) {
    RingReduction& engine = engines_[member];
    const auto hop = static_cast<uint32_t>(rng_.below(2 * engines_.size()));
    if (hop != message.hop) {
      EXPECT_FALSE(engine.received(message.chunk, hop)) << "a wrong hop";
    }
    ASSERT_TRUE(engine.received(message.chunk, message.hop));
    sum_[member][message.chunk] = message.data;
    run(member);
    EXPECT_FALSE(engine.received(message.chunk, message.hop)) << "a duplicate";
    EXPECT_TRUE(engine.take_actions().empty());
  }

  void run(size_t member) {
    for (const RingAction& action : engines_[member].take_actions()) {
      EXPECT_EQ(completed_[member], 0);
      uint64_t& sum = sum_[member][action.chunk];
      const uint64_t own = own_[member][action.chunk];
      std::deque<Message>& next = links_[(member + 1) % engines_.size()];
      switch (action.kind) {
        case RingAction::Kind::CopyOwn:
          sum = own;
          break;
        case RingAction::Kind::AddOwn:
          sum += own;
          break;
        case RingAction::Kind::SendOwn:
          next.push_back({action.chunk, action.hop, own});
          ++messages_;
          break;
        case RingAction::Kind::SendSum:
          next.push_back({action.chunk, action.hop, sum});
          ++messages_;
          break;
        case RingAction::Kind::Complete:
          ++completed_[member];
          break;
      }
    }
  }

  Rng& rng_;
  std::vector<RingReduction> engines_;
  std::vector<std::deque<Message>> links_;  // into member i
  std::vector<std::vector<uint64_t>> own_;
  std::vector<std::vector<uint64_t>> sum_;
  std::vector<int> completed_;
  size_t messages_ = 0;
};

TEST(RingReduction, AnyOrderOfEvents_EveryMemberHasTheSum) {
  const char* text = std::getenv("PACELINE_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 7;
  std::cout << "PACELINE_TEST_SEED=" << seed << "\n";
  Rng rng(seed);
  for (MemberIndex members = 1; members <= 9; ++members) {
    for (const uint32_t chunks : {1u, 2u, 3u, 8u, 9u, 25u}) {
      for (int round = 0; round < 8; ++round) {
        Ring ring(members, chunks, rng);
        while (ring.step()) {
        }
        ring.expect_sums();
      }
    }
  }
}

TEST(RingReduction, OneMember_IsCompleteAtOnce) {
  RingReduction ring({.members = 1, .self = 0, .chunks = 2});
  EXPECT_FALSE(ring.received(0, 1));
  ring.own_ready();
  EXPECT_TRUE(ring.is_complete());
  EXPECT_EQ(ring.take_actions().size(), 3u);
}

TEST(RingReduction, ChunkBeforeTheOwnContribution_WaitsForIt) {
  RingReduction ring({.members = 3, .self = 1, .chunks = 1});
  EXPECT_FALSE(ring.received(0, 2)) << "a hop of another member";
  EXPECT_FALSE(ring.received(0, 4)) << "a sum without the own contribution";
  EXPECT_TRUE(ring.received(0, 1));
  EXPECT_FALSE(ring.received(0, 1));
  EXPECT_TRUE(ring.take_actions().empty());
  ring.own_ready();
  const std::vector<RingAction> expected = {{RingAction::Kind::AddOwn, 0, 0},
                                            {RingAction::Kind::SendSum, 0, 2}};
  EXPECT_EQ(ring.take_actions(), expected);
}

}  // namespace
}  // namespace paceline::collective
