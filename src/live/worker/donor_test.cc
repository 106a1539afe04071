// Goal: a joiner that takes its sums too slowly costs its donor bounded memory. Method: a donor
// over a real connection whose other side is never read.
#include "live/worker/donor.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>

#include "live/os/clock.h"
#include "live/wire/memory_label.h"

namespace paceline::worker {
namespace {

struct NoPeers final : PeerHandler {
  FrameVerdict take(RankId, const FrameHeader&, std::span<const std::byte>) override {
    return FrameVerdict::Refuse;
  }
  void connection_lost(RankId) override {}
  void silent(RankId) override {}
  void heard_again(RankId) override {}
  void heal_lost(RankId) override {}
};

// Accepts a connection in the kernel's queue and never reads.
struct Listener {
  Listener() : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket.get(), 4), 0);
    EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  }
  os::Descriptor socket;
  sockaddr_in address{};
};

TEST(StateDonor, JoinerThatDoesNotRead_IsDroppedAtTheLimit) {
  constexpr size_t kLimit = 16 << 20;
  const Listener listener;
  NoPeers peers;
  Result<Poller> poller = Poller::make();
  ASSERT_TRUE(poller.has_value());
  auto transport =
      Transport::listen({.self = {SlotId(0), Incarnation(1)}, .token = 1}, *poller, peers);
  ASSERT_TRUE(transport.has_value());
  StateDonor donor(**transport, kLimit);
  const RankId joiner{SlotId(1), Incarnation(2)};

  const uint32_t endpoint[] = {INADDR_LOOPBACK, ntohs(listener.address.sin_port)};
  const FrameHeader ask{.kind = FrameKind::HealAsk,
                        .hop = 1,
                        .turn = Turn(5),
                        .low = EpochNumber(1),
                        .high = EpochNumber(1),
                        .payload_bytes = 8};
  ASSERT_EQ(donor.take(joiner, ask, std::as_bytes(std::span(endpoint)), {Turn(4), true}, os::now()),
            FrameVerdict::Taken);
  EXPECT_FALSE(donor.wants_copy(Turn(4)));
  ASSERT_TRUE(donor.wants_copy(Turn(5)));
  donor.begin_copy(Turn(5));
  EXPECT_FALSE(donor.wants_copy(Turn(5)));
  Snapshot snapshot;
  snapshot.position = {Turn(5), Step(5), 0};
  snapshot.micro_batches = 1;
  const std::vector<std::byte> state(1000);
  const std::span<const std::byte> parts[] = {state};
  ASSERT_TRUE(snapshot.allocate(wire::kSnapshotLabel, state.size()).has_value());
  snapshot.fill(parts);
  donor.give(std::make_shared<const Snapshot>(std::move(snapshot)));
  EXPECT_EQ(donor.copies(), 1u);

  const uint64_t elements[] = {500'000};
  Result<collective::BucketLayout> layout = collective::make_layout(elements);
  ASSERT_TRUE(layout.has_value());
  std::vector<Bucket> buckets;
  buckets.emplace_back("g", std::move(*layout), collective::Dtype::F32, ReduceMode::Exact);
  buckets[0].set_micro_batches(1);
  constexpr size_t kTurnBytes = 500'000 * 4;
  size_t turn = 5;
  size_t most = 0;
  for (; donor.copies() > 0 && turn < 100; ++turn) {
    donor.committing(Turn(turn), false, buckets);
    (*transport)->flush();
    for (const Poller::Event& event : poller->wait(Duration::milliseconds(1)))
      (*transport)->handle(event, os::now());
    most = std::max(most, (*transport)->waiting_heal_bytes(joiner));
    donor.sweep();
  }
  EXPECT_EQ(donor.copies(), 0u);
  EXPECT_GT(turn - 5, kLimit / kTurnBytes) << "dropped before the limit";
  EXPECT_LT(most, kLimit + 2 * kTurnBytes);
  EXPECT_EQ((*transport)->waiting_heal_bytes(joiner), 0u) << "its queue is freed";
}

}  // namespace
}  // namespace paceline::worker
