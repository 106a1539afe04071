// Goal: what encode() makes is read back equal, and nothing else is accepted. Method: random
// records of every kind, cut at every byte, changed at random, and plain garbage.
#include "live/wire/rank_record.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "base/rng.h"

namespace paceline::wire {
namespace {

uint64_t test_seed() {
  const char* text = std::getenv("PACELINE_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 20260101;
  std::cout << "PACELINE_TEST_SEED=" << seed << "\n";
  return seed;
}

class RandomRecord {
 public:
  explicit RandomRecord(uint64_t seed) : rng_(seed) {}

  RankRecord of_rank(size_t kind) {
    switch (kind) {
      case 0:
        return Hello{endpoint(), u32(), u64(), u64()};
      case 1:
        return report();
      case 2:
        return Entered{EpochNumber(u32()), Turn(u64()), Step(u64())};
      case 3:
        return Done{rng_.below(2) == 1, Turn(u64()), u64()};
      case 4:
        return PeerNotice{rank(), static_cast<PeerTrouble::What>(rng_.below(3))};
      case 5:
        return TagNotice{Turn(u64())};
      case 6:
        return DigestNotice{Step(u64()), u64()};
      default:
        return HealNotice{u32(), static_cast<HealProgress::What>(rng_.below(3)), rank(),
                          std::string(rng_.below(20), 'x')};
    }
  }

  AgentRecord of_agent(size_t kind) {
    switch (kind) {
      case 0:
        return Announce{epoch()};
      case 1:
        return Prepare{EpochNumber(u32())};
      case 2:
        return Activate{epoch()};
      case 3:
        return Out{EpochNumber(u32()), Turn(u64())};
      case 4: {
        HealOrder order{u32(), {}};
        for (uint64_t i = rng_.below(4); i > 0; --i)
          order.donors.push_back({rank(), HostId(u32()), endpoint()});
        return order;
      }
      default:
        return ReleaseOrder{};
    }
  }

  std::vector<std::byte> garbage() {
    std::vector<std::byte> bytes(rng_.below(200));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng_.below(256));
    if (bytes.size() >= 4 && rng_.below(2) == 0) {  // a kind that exists
      bytes[0] = static_cast<std::byte>(rng_.below(9));
      bytes[1] = bytes[2] = bytes[3] = std::byte{0};
    }
    return bytes;
  }

  size_t below(size_t bound) { return rng_.below(bound); }

 private:
  uint32_t u32() { return static_cast<uint32_t>(rng_.next()); }
  uint64_t u64() { return rng_.next(); }
  RankId rank() { return {SlotId(u32()), Incarnation(u32())}; }
  Endpoint endpoint() { return {u32(), static_cast<uint16_t>(u32())}; }
  PrepareReport report() {
    PrepareReport report{EpochNumber(u32()), EpochNumber(u32()), Turn(u64()),
                         Step(u64()),        rng_.below(2) == 1, {}};
    for (uint32_t m = 0; m < 20; ++m)
      if (rng_.below(2) == 0) report.held.push_back(MicroBatch(m));
    return report;
  }
  Epoch epoch() {
    Epoch epoch{.number = EpochNumber(u32()),
                .kind = static_cast<EpochKind>(rng_.below(2)),
                .members = {},
                .owner = {},
                .is_last = rng_.below(2) == 1,
                .skipped = {},
                .target = Turn(u64()),
                .lost_owner = {}};
    const auto members = static_cast<MemberIndex>(1 + rng_.below(5));
    for (MemberIndex i = 0; i < members; ++i)
      epoch.members.push_back({rank(), HostId(u32()), endpoint()});
    const uint64_t micro_batches = rng_.below(9);
    for (uint64_t m = 0; m < micro_batches; ++m) {
      epoch.owner.push_back(static_cast<MemberIndex>(rng_.below(members)));
      if (epoch.kind == EpochKind::Emergency)
        epoch.lost_owner.push_back(
            rng_.below(2) == 0 ? kNoMember : static_cast<MemberIndex>(rng_.below(members)));
      if (rng_.below(4) == 0)
        epoch.skipped.push_back({Step(u64()), MicroBatch(static_cast<uint32_t>(m))});
    }
    return epoch;
  }

  Rng rng_;
};

constexpr size_t kRankKinds = std::variant_size_v<RankRecord>;
constexpr size_t kAgentKinds = std::variant_size_v<AgentRecord>;

TEST(RankRecord, EveryKind_IsReadBackEqual) {
  RandomRecord random(test_seed());
  for (int round = 0; round < 200; ++round) {
    for (size_t kind = 0; kind < kRankKinds; ++kind) {
      const RankRecord record = random.of_rank(kind);
      ASSERT_EQ(record.index(), kind);
      const Result<RankRecord> back = decode_rank_record(encode(record));
      ASSERT_TRUE(back.has_value()) << kind << ": " << back.error().message;
      EXPECT_TRUE(*back == record) << kind;
    }
    for (size_t kind = 0; kind < kAgentKinds; ++kind) {
      const AgentRecord record = random.of_agent(kind);
      ASSERT_EQ(record.index(), kind);
      const Result<AgentRecord> back = decode_agent_record(encode(record));
      ASSERT_TRUE(back.has_value()) << kind << ": " << back.error().message;
      EXPECT_TRUE(*back == record) << kind;
    }
  }
}

TEST(RankRecord, CutAtAnyByteOrTooLong_IsRefused) {
  RandomRecord random(test_seed());
  const auto expect_exact = [](const std::vector<std::byte>& bytes, const auto& decode) {
    for (size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(decode(std::span(bytes).first(size)).has_value()) << size;
    std::vector<std::byte> longer = bytes;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(decode(longer).has_value());
  };
  for (size_t kind = 0; kind < kRankKinds; ++kind)
    expect_exact(encode(random.of_rank(kind)), decode_rank_record);
  for (size_t kind = 0; kind < kAgentKinds; ++kind)
    expect_exact(encode(random.of_agent(kind)), decode_agent_record);
}

// What is accepted must be canonical: encoding it again gives the same bytes.
TEST(RankRecord, Garbage_IsRefusedOrCanonical) {
  RandomRecord random(test_seed());
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes = random.garbage();
    if (round % 2 == 0) {
      bytes = encode(random.of_agent(random.below(kAgentKinds)));
      bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1u << random.below(8));
    }
    const Result<RankRecord> of_rank = decode_rank_record(bytes);
    if (of_rank.has_value()) {
      EXPECT_EQ(encode(*of_rank), bytes);
    }
    const Result<AgentRecord> of_agent = decode_agent_record(bytes);
    if (of_agent.has_value()) {
      EXPECT_EQ(encode(*of_agent), bytes);
    }
  }
}

TEST(RankRecord, MemberIndexOutsideTheEpoch_IsRefused) {
  Epoch epoch;
  epoch.members.resize(2);
  epoch.owner = {0, 2};
  EXPECT_FALSE(decode_epoch(encode_epoch(epoch)).has_value());
  epoch.owner = {0, 1};
  EXPECT_TRUE(decode_epoch(encode_epoch(epoch)).has_value());
  epoch.lost_owner = {0};
  EXPECT_FALSE(decode_epoch(encode_epoch(epoch)).has_value());
}

TEST(ControlMessage, EveryKind_IsReadBackEqual) {
  const std::vector<ControlMessage> messages = {Announce{}, Prepare{EpochNumber(3)}, Activate{},
                                                Out{EpochNumber(4), Turn(9)}};
  for (const ControlMessage& message : messages) {
    const Result<ControlMessage> back = decode_control(encode_control(message));
    ASSERT_TRUE(back.has_value());
    EXPECT_TRUE(*back == message);
  }
}

}  // namespace
}  // namespace paceline::wire
