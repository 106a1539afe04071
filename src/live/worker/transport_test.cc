// Goal: a path on which nothing answers is told like one that says no, and soon. Method: a listener
// whose queue is full, so that the kernel drops what comes; time is told by the test.
#include "live/worker/transport.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <vector>

#include "live/os/clock.h"

namespace paceline::worker {
namespace {

class Told final : public PeerHandler {
 public:
  FrameVerdict take(RankId, const FrameHeader&, std::span<const std::byte>) override {
    return FrameVerdict::Taken;
  }
  void connection_lost(RankId peer) override { lost.push_back(peer); }
  void silent(RankId) override {}
  void heard_again(RankId) override {}
  void heal_lost(RankId) override {}

  std::vector<RankId> lost;
};

os::Descriptor tcp_socket() {
  return os::Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

TEST(Transport, PeerThatNeverAnswers_IsLostAfterTheLimit) {
  const os::Descriptor listener = tcp_socket();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener.get(), name, size), 0);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  ASSERT_EQ(::getsockname(listener.get(), name, &size), 0);
  std::array<os::Descriptor, 4> waiting;  // nobody accepts them
  for (os::Descriptor& socket : waiting) {
    socket = tcp_socket();
    ::connect(socket.get(), name, size);
  }

  Result<Poller> poller = Poller::make();
  ASSERT_TRUE(poller);
  Told told;
  auto transport =
      Transport::listen({.self = {SlotId(0), Incarnation(1)}, .token = 1}, *poller, told);
  ASSERT_TRUE(transport);
  const RankId peer{SlotId(1), Incarnation(1)};
  const Instant begun = os::now();
  (*transport)->connect(peer, {INADDR_LOOPBACK, ntohs(address.sin_port)}, Channel::Step, begun);
  (*transport)->tick(EpochNumber(1), begun + kConnectLimit - Duration::milliseconds(1));
  EXPECT_TRUE(told.lost.empty());
  (*transport)->tick(EpochNumber(1), begun + kConnectLimit);
  EXPECT_EQ(told.lost, std::vector<RankId>{peer});
}

}  // namespace
}  // namespace paceline::worker
