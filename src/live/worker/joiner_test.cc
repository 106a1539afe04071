// Goal: what a joiner asks of its donors, and when. Method: its own transport, and two that record
// what they are asked; what donors say is handed to it directly.
#include "live/worker/joiner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "live/os/clock.h"
#include "live/wire/memory_label.h"

namespace paceline::worker {
namespace {

constexpr RankId kFirst{SlotId(0), Incarnation(1)};
constexpr RankId kSecond{SlotId(2), Incarnation(1)};
constexpr RankId kJoiner{SlotId(1), Incarnation(2)};
constexpr size_t kStateBytes = 1000;
constexpr Turn kCopied{5};
constexpr size_t kMaxWaiting = 1000;
const Trial kTrial{kCopied, MicroBatch(0), 0x1234, {"a CPU", 1}};

class Party final : public PeerHandler {
 public:
  explicit Party(RankId id)
      : transport_(Transport::listen({.self = id, .token = 1}, *poller_, *this)) {}
  Transport& transport() { return **transport_; }
  size_t count(FrameKind kind) const {
    return static_cast<size_t>(std::count(heard_.begin(), heard_.end(), kind));
  }
  void pump() {
    transport().flush();
    for (const Poller::Event& event : poller_->wait(Duration::milliseconds(1)))
      transport().handle(event, os::now());
  }

 private:
  FrameVerdict take(RankId, const FrameHeader& header, std::span<const std::byte>) override {
    heard_.push_back(header.kind);
    return FrameVerdict::Taken;
  }
  void connection_lost(RankId) override {}
  void silent(RankId) override {}
  void heard_again(RankId) override {}
  void heal_lost(RankId) override {}

  Result<Poller> poller_ = Poller::make();
  Result<std::unique_ptr<Transport>> transport_;
  std::vector<FrameKind> heard_;
};

class JoinerTest : public ::testing::Test {
 protected:
  JoinerTest()
      : joiner_(self_.transport(), {.state_bytes = kStateBytes, .max_waiting_bytes = kMaxWaiting}) {
    copy_.position = {kCopied, Step(5), 0};
    copy_.micro_batches = 1;
    EXPECT_TRUE(copy_.allocate(wire::kSnapshotLabel, kStateBytes).has_value());
    const std::vector<std::byte> zeros(kStateBytes);
    const std::span<const std::byte> parts[] = {zeros};
    copy_.fill(parts);
    joiner_.order({.attempt = 1,
                   .donors = {{kFirst, HostId(0), first_.transport().endpoint()},
                              {kSecond, HostId(2), second_.transport().endpoint()}}},
                  os::now());
    EXPECT_TRUE(pump_until([&] { return second_.count(FrameKind::HealAsk) == 1; }));
    for (const RankId donor : {kFirst, kSecond})
      say(donor, {.kind = FrameKind::HealTurn, .turn = Turn(4), .high = EpochNumber(1)}, {});
    EXPECT_TRUE(pump_until([&] { return second_.count(FrameKind::HealAsk) == 2; }));
  }

  template <class Condition>
  bool pump_until(Condition condition) {
    for (const Instant end = os::now() + Duration::seconds(10); os::now() < end;) {
      for (Party* party : {&self_, &first_, &second_}) party->pump();
      if (condition()) return true;
    }
    return false;
  }
  // What was sent before this has arrived when it returns: a later frame of the same connection
  // has.
  void let_all_arrive(Party& donor) {
    const RankId id = &donor == &first_ ? kFirst : kSecond;
    const size_t before = donor.count(FrameKind::HealGood);
    self_.transport().send(id, {.kind = FrameKind::HealGood, .high = EpochNumber(2)}, {}, {});
    ASSERT_TRUE(pump_until([&] { return donor.count(FrameKind::HealGood) > before; }));
  }

  void say(RankId donor, FrameHeader header, std::span<const std::byte> payload) {
    header.payload_bytes = static_cast<uint32_t>(payload.size());
    ASSERT_EQ(joiner_.take(donor, header, payload), FrameVerdict::Taken);
  }
  void say_manifest(RankId donor) {
    const uint64_t words[] = {kStateBytes, copy_.digest, copy_.checksums.at(0)};
    say(donor,
        {.kind = FrameKind::HealManifest,
         .hop = 1,
         .turn = kCopied,
         .tag = 5,
         .low = EpochNumber(1),
         .high = EpochNumber(2)},
        std::as_bytes(std::span(words)));
  }
  void say_chunk(RankId donor, bool is_good) {
    std::vector<std::byte> bytes(copy_.bytes().begin(), copy_.bytes().end());
    if (!is_good) bytes[7] ^= std::byte{1};
    say(donor,
        {.kind = FrameKind::HealChunk, .low = EpochNumber(kStateBytes), .high = EpochNumber(2)},
        bytes);
  }

  // It has the state, and its donor's first words after it.
  void follow() {
    say_manifest(kFirst);
    say_manifest(kSecond);
    say_chunk(kFirst, true);
    ASSERT_TRUE(joiner_.has_snapshot());
    joiner_.snapshot_taken();
    joiner_.checked();
  }
  void say_trial() {
    FrameHeader header = trial_header(kTrial);
    header.high = EpochNumber(2);
    say(kFirst, header, trial_payload(kTrial));
  }
  FrameVerdict say_sum() {
    const std::vector<std::byte> sum(kMaxWaiting / 2);
    return joiner_.take(kFirst,
                        {.kind = FrameKind::HealSum,
                         .high = EpochNumber(2),
                         .payload_bytes = static_cast<uint32_t>(sum.size())},
                        sum);
  }
  std::vector<HealProgress::What> said() {
    std::vector<HealProgress::What> what;
    for (const wire::HealNotice& notice : joiner_.take_notices()) what.push_back(notice.what);
    return what;
  }

  Party self_{kJoiner};
  Party first_{kFirst};
  Party second_{kSecond};
  Snapshot copy_;
  Joiner joiner_;
};

TEST_F(JoinerTest, ChunkBadTwice_IsAskedOfTheOtherOnceThatHasItsCopy) {
  say_manifest(kFirst);
  say_chunk(kFirst, false);
  ASSERT_TRUE(pump_until([&] { return first_.count(FrameKind::HealChunkAsk) == 1; }));
  say_chunk(kFirst, false);
  let_all_arrive(second_);
  EXPECT_EQ(second_.count(FrameKind::HealChunkAsk), 0u) << "it would be passed over: no copy yet";

  say_manifest(kSecond);
  ASSERT_TRUE(pump_until([&] { return second_.count(FrameKind::HealChunkAsk) == 1; }));
  say_chunk(kSecond, true);
  EXPECT_TRUE(joiner_.has_snapshot());
  const std::vector<wire::HealNotice> notices = joiner_.take_notices();
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].what, HealProgress::What::ChunkRepaired);
  EXPECT_EQ(notices[0].donor, kFirst);
}

TEST_F(JoinerTest, ChunkBadTwice_IsAskedOfTheOtherAtOnceIfThatHasItsCopy) {
  say_manifest(kFirst);
  say_manifest(kSecond);
  say_chunk(kFirst, false);
  say_chunk(kFirst, false);
  EXPECT_TRUE(pump_until([&] { return second_.count(FrameKind::HealChunkAsk) == 1; }));
  EXPECT_FALSE(joiner_.has_snapshot());
}

using Said = std::vector<HealProgress::What>;

TEST_F(JoinerTest, UntilItHasAnsweredItsTrial_IsNotLevel) {
  follow();
  joiner_.level();
  EXPECT_EQ(said(), Said{}) << "nothing is known of a trial yet";
  say_trial();
  joiner_.level();
  EXPECT_EQ(said(), Said{});
  joiner_.answer(kTrial, kTrial.digest, {"another CPU", 2});
  joiner_.level();
  EXPECT_EQ(said(), Said{HealProgress::What::Level});
}

TEST_F(JoinerTest, OtherBitsInItsTrial_HasFailed) {
  follow();
  say_trial();
  joiner_.answer(kTrial, kTrial.digest + 1, {"another CPU", 2});
  joiner_.level();
  EXPECT_EQ(said(), Said{HealProgress::What::Failed});
}

TEST_F(JoinerTest, DonorWithoutMicroBatches_IsLevelUntried) {
  follow();
  say(kFirst, {.kind = FrameKind::HealTrial, .high = EpochNumber(2)}, {});
  EXPECT_EQ(joiner_.front(), nullptr) << "there is nothing to compute";
  joiner_.level();
  EXPECT_EQ(said(), Said{HealProgress::What::Level});
}

// Its program may take any time: the sums that come meanwhile are not kept without bound.
TEST_F(JoinerTest, SumsBeyondTheLimitDuringItsTrial_WaitOnTheDonorsSide) {
  follow();
  say_trial();
  for (int i = 0; i < 2; ++i) ASSERT_EQ(say_sum(), FrameVerdict::Taken);
  say(kFirst, {.kind = FrameKind::HealCommit, .turn = kCopied, .high = EpochNumber(2)}, {});
  EXPECT_EQ(say_sum(), FrameVerdict::Taken) << "at the limit, not beyond it";
  EXPECT_EQ(say_sum(), FrameVerdict::Keep);
  joiner_.answer(kTrial, kTrial.digest, {});
  EXPECT_EQ(say_sum(), FrameVerdict::Keep) << "what it has is not applied yet";
  joiner_.pop();
  EXPECT_EQ(say_sum(), FrameVerdict::Taken);
}

}  // namespace
}  // namespace paceline::worker
