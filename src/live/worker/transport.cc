#include "live/worker/transport.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace paceline::worker {
namespace {

constexpr int kBacklog = 256;
constexpr int kMaxAccepts = 64;  // per event
constexpr Duration kLateLimit = Duration::milliseconds(10);

}  // namespace

Result<std::unique_ptr<Transport>> Transport::listen(const Options& options, Poller& poller,
                                                     PeerHandler& handler) {
  os::Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(options.address != 0 ? options.address : INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (!listener.is_open() ||
      ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(listener.get(), kBacklog) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return Failure{ErrorCode::Io, str("listening for peers: ", std::strerror(errno))};
  const Endpoint endpoint{ntohl(address.sin_addr.s_addr), ntohs(address.sin_port)};
  return std::unique_ptr<Transport>(
      new Transport(options, poller, handler, std::move(listener), endpoint));
}

Transport::Transport(const Options& options, Poller& poller, PeerHandler& handler,
                     os::Descriptor listener, Endpoint endpoint)
    : options_(options),
      poller_(poller),
      handler_(handler),
      listener_(std::move(listener)),
      listener_key_(poller.add(listener_.get(), EPOLLIN)),
      endpoint_(endpoint) {}

// --- Sending ---

void Transport::connect(RankId id, Endpoint endpoint, Channel channel, Instant now) {
  Peer& peer = peers_[{id, channel}];
  if (peer.connection) return;
  peer.connection = std::make_unique<Outgoing>(
      poller_, endpoint, Outgoing::Opening{options_.self, options_.token, channel});
  peer.connection->connect(now);
  report(id, channel, peer);
}

void Transport::send(RankId id, const FrameHeader& header, std::span<const std::byte> head,
                     std::span<const std::byte> body, std::shared_ptr<const void> keep) {
  const auto peer = peers_.find({id, is_heal(header.kind) ? Channel::Heal : Channel::Step});
  CHECK(peer != peers_.end(), id);
  peer->second.connection->push(header, head, body, std::move(keep));
  peer->second.is_dirty = true;
}

void Transport::flush() {
  for (auto& [key, peer] : peers_) {
    if (!std::exchange(peer.is_dirty, false)) continue;
    peer.connection->flush();
    report(key.first, key.second, peer);
  }
}

void Transport::report(RankId id, Channel channel, Peer& peer) {
  const bool has_failed =
      peer.connection->state() == Outgoing::State::Broken || peer.connection->failed_attempts() > 0;
  if (!has_failed || std::exchange(peer.has_failed, true)) return;
  tell_lost(id, channel);
}

void Transport::tell_lost(RankId id, Channel channel) {
  if (channel == Channel::Heal) {
    handler_.heal_lost(id);
  } else {
    handler_.connection_lost(id);
  }
}

size_t Transport::waiting_heal_bytes(RankId id) const {
  const auto peer = peers_.find({id, Channel::Heal});
  return peer == peers_.end() ? 0 : peer->second.connection->copied_bytes();
}

void Transport::end_heal(RankId peer) { peers_.erase({peer, Channel::Heal}); }

void Transport::end_heal_both(RankId peer) {
  end_heal(peer);
  std::erase_if(incoming_, [peer](const auto& each) {
    return each->sender() == peer && each->channel() == Channel::Heal;
  });
}

// --- Events ---

bool Transport::handle(const Poller::Event& event, Instant now) {
  if (event.key == listener_key_) {
    accept_all(now);
    return true;
  }
  return handle_outgoing(event, now) || handle_incoming(event, now);
}

bool Transport::handle_outgoing(const Poller::Event& event, Instant now) {
  for (auto& [key, peer] : peers_) {
    if (peer.connection->key() != event.key) continue;
    peer.connection->handle(event.events, now);
    report(key.first, key.second, peer);
    return true;
  }
  return false;
}

bool Transport::handle_incoming(const Poller::Event& event, Instant now) {
  const auto found = std::find_if(incoming_.begin(), incoming_.end(),
                                  [&](const auto& each) { return each->key() == event.key; });
  if (found == incoming_.end()) return false;
  Incoming& connection = **found;
  const bool is_open = connection.is_paused() ? (event.events & (EPOLLHUP | EPOLLERR)) == 0
                                              : connection.read(options_.token, now, taker());
  // Handling a frame may have quiesced everything, this connection included.
  const auto still = std::find_if(incoming_.begin(), incoming_.end(),
                                  [&](const auto& each) { return each.get() == &connection; });
  if (!is_open && still != incoming_.end())
    end_incoming(static_cast<size_t>(still - incoming_.begin()));
  return true;
}

void Transport::accept_all(Instant now) {
  for (int i = 0; i < kMaxAccepts; ++i) {
    os::Descriptor socket(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) return;
    if (strangers() >= kMaxStrangers) continue;
    incoming_.push_back(std::make_unique<Incoming>(poller_, std::move(socket), now));
  }
}

void Transport::end_incoming(size_t index) {
  const std::unique_ptr<Incoming> ended = std::move(incoming_[index]);
  incoming_.erase(incoming_.begin() + static_cast<ptrdiff_t>(index));
  if (!ended->sender()) return;
  // Its sender had something to send when it quiesced. That it does no more is no news.
  if (ended->channel() == Channel::Step && ended->newest() < entered_) return;
  // A peer that has come anew has not been lost with the connection of an attempt that is over.
  const bool has_come_anew =
      ended->channel() == Channel::Heal &&
      std::any_of(incoming_.begin(), incoming_.end(), [&](const auto& each) {
        return each->sender() == ended->sender() && each->channel() == Channel::Heal;
      });
  if (!has_come_anew) tell_lost(*ended->sender(), ended->channel());
}

size_t Transport::strangers() const {
  return static_cast<size_t>(std::count_if(incoming_.begin(), incoming_.end(),
                                           [](const auto& each) { return !each->sender(); }));
}

Incoming::Take Transport::taker() {
  return [this](RankId sender, const FrameHeader& header, std::span<const std::byte> payload) {
    return handler_.take(sender, header, payload);
  };
}

void Transport::resume_paused() {
  for (size_t i = 0; i < incoming_.size();) {
    if (incoming_[i]->resume(taker())) {
      ++i;
    } else {
      end_incoming(i);
    }
  }
}

void Transport::quiesce() {
  std::erase_if(peers_, [](const auto& each) {
    return each.first.second == Channel::Step && !each.second.connection->is_at_rest();
  });
}

void Transport::enter(EpochNumber epoch, const std::set<RankId>& members) {
  entered_ = epoch;
  std::erase_if(peers_, [&](const auto& each) {
    const auto& [id, channel] = each.first;
    return channel == Channel::Step &&
           !(members.contains(id) && each.second.connection->is_at_rest());
  });
  std::erase_if(incoming_, [&](const auto& each) {
    return each->sender() && each->channel() == Channel::Step && !members.contains(*each->sender());
  });
  silent_.clear();  // whoever still is will be told again
}

// --- Time ---

void Transport::tick(EpochNumber epoch, Instant now) {
  for (auto& [key, peer] : peers_) {
    Outgoing& connection = *peer.connection;
    connection.check_attempt(now);
    if (connection.state() == Outgoing::State::Retrying && now >= connection.retry_at())
      connection.connect(now);
    report(key.first, key.second, peer);
  }
  if (now < next_beat_) return;
  const Duration lateness = now - next_beat_;
  if (lateness > kLateLimit && next_beat_ != Instant())
    for (const auto& each : incoming_) each->forgive(lateness);
  next_beat_ = now + kBeatInterval;
  beat(epoch);
  judge_silence(now);
  std::erase_if(incoming_, [now](const auto& each) {
    return !each->sender() && now - each->opened() > kStrangerDeadline;
  });
}

Instant Transport::next_tick() const {
  Instant next = next_beat_;
  for (const auto& [key, peer] : peers_)
    if (peer.connection->state() == Outgoing::State::Retrying)
      next = std::min(next, peer.connection->retry_at());
  return next;
}

// A connection with frames in its queue needs no beat, and must not collect them.
void Transport::beat(EpochNumber epoch) {
  for (auto& [key, peer] : peers_)
    if (key.second == Channel::Step && peer.connection->is_at_rest())
      send(key.first, {.kind = FrameKind::Beat, .epoch = epoch}, {}, {});
  flush();
}

// What waits behind a kept frame cannot be heard, so a paused connection is not silent.
void Transport::judge_silence(Instant now) {
  for (const auto& each : incoming_) {
    if (!each->sender() || each->channel() != Channel::Step) continue;
    const bool is_silent = !each->is_paused() && now - each->last_heard() > kSilenceLimit;
    if (is_silent && silent_.insert(*each->sender()).second) handler_.silent(*each->sender());
    if (!is_silent && silent_.erase(*each->sender()) > 0) handler_.heard_again(*each->sender());
  }
}

}  // namespace paceline::worker
