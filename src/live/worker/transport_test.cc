// Goal: a path on which nothing answers is told like one that says no, and soon; a quiesce ends
// what is under way and nothing else. Method: a listener whose queue is full, so that the kernel
// drops what comes, and two ranks in one thread; time is told by the test.
#include "live/worker/transport.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <vector>

#include "live/os/clock.h"

namespace paceline::worker {
namespace {

class Told final : public PeerHandler {
 public:
  FrameVerdict take(RankId, const FrameHeader& header, std::span<const std::byte>) override {
    taken.push_back(header.epoch);
    return FrameVerdict::Taken;
  }
  void connection_lost(RankId peer) override { lost.push_back(peer); }
  void silent(RankId) override {}
  void heard_again(RankId) override {}
  void heal_lost(RankId) override {}

  std::vector<EpochNumber> taken;
  std::vector<RankId> lost;
};

// A rank with a connection to its peer. `step` lets it deal with what has come until `is_so`.
class Side {
 public:
  explicit Side(uint32_t slot)
      : self{SlotId(slot), Incarnation(1)},
        poller_(Poller::make().value()),
        transport_(Transport::listen({.self = self, .token = 1}, poller_, told).value()) {}
  Transport* operator->() { return transport_.get(); }
  void connect_to(const Side& peer) {
    transport_->connect(peer.self, peer.transport_->endpoint(), Channel::Step, os::now());
  }
  void say(const Side& peer, EpochNumber epoch, std::span<const std::byte> body = {}) {
    transport_->send(peer.self,
                     {.kind = FrameKind::Vote,
                      .epoch = epoch,
                      .payload_bytes = static_cast<uint32_t>(body.size())},
                     {}, body);
    transport_->flush();
  }
  void handle_events() {
    for (const Poller::Event& event : poller_.wait(Duration::milliseconds(1)))
      transport_->handle(event, os::now());
  }

  const RankId self;
  Told told;

 private:
  Poller poller_;
  std::unique_ptr<Transport> transport_;
};

// Lets both deal with what comes until `is_so`, at most for 10 s.
template <class Condition>
bool comes_true(Side& a, Side& b, Condition is_so) {
  for (const Instant end = os::now() + Duration::seconds(10); os::now() < end;) {
    if (is_so()) return true;
    a.handle_events();
    b.handle_events();
  }
  return false;
}

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

TEST(Transport, ConnectionAtRest_OutlivesAQuiesce) {
  Side a(0), b(1);
  a.connect_to(b);
  a.say(b, EpochNumber(1));
  ASSERT_TRUE(comes_true(a, b, [&] { return b.told.taken.size() == 1; }));
  for (Side* side : {&a, &b}) {
    (*side)->quiesce();
    (*side)->enter(EpochNumber(2), {a.self, b.self});
  }
  a.say(b, EpochNumber(2));  // not connected anew: it would be a programming error without one
  ASSERT_TRUE(comes_true(a, b, [&] { return b.told.taken.size() == 2; }));
  EXPECT_EQ(b.told.taken.back(), EpochNumber(2));
  EXPECT_TRUE(a.told.lost.empty());
  EXPECT_TRUE(b.told.lost.empty());
}

// Its end arrives when the receiver is in the next epoch, in which the sender is a fellow.
TEST(Transport, ConnectionWithAFrameUnderWay_EndsAtTheQuiesceAndIsNotLost) {
  Side a(0), b(1);
  a.connect_to(b);
  a.say(b, EpochNumber(1));
  ASSERT_TRUE(comes_true(a, b, [&] { return b.told.taken.size() == 1; }));
  const std::vector<std::byte> body(kMaxPayloadBytes);
  for (int i = 0; i < 1000; ++i) a.say(b, EpochNumber(1), body);  // more than the kernel takes
  b->quiesce();
  b->enter(EpochNumber(2), {a.self, b.self});
  a->quiesce();
  a->enter(EpochNumber(2), {a.self, b.self});
  a.connect_to(b);
  a.say(b, EpochNumber(2));
  ASSERT_TRUE(comes_true(a, b, [&] { return b.told.taken.back() == EpochNumber(2); }));
  EXPECT_TRUE(b.told.lost.empty());
}

TEST(Transport, NewEpoch_ConnectionsWithOthersThanItsMembersEnd) {
  Side a(0), b(1);
  a.connect_to(b);
  a.say(b, EpochNumber(1));
  ASSERT_TRUE(comes_true(a, b, [&] { return b.told.taken.size() == 1; }));
  b->quiesce();
  b->enter(EpochNumber(2), {b.self});
  EXPECT_TRUE(comes_true(a, b, [&] { return a.told.lost == std::vector<RankId>{b.self}; }));
}

}  // namespace
}  // namespace paceline::worker
