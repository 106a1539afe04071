#include "live/agent/rank_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <variant>

#include "base/str.h"
#include "live/wire/rank_record.h"

namespace paceline::agent {
namespace {

// Room for the longest record. Beyond the system's limit where that is allowed.
void widen_buffer(int socket) {
  const int bytes = 2 * static_cast<int>(wire::kMaxRecordBytes);
  if (::setsockopt(socket, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0)
    ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

wire::AgentRecord to_record(const RankOrder& order) {
  return std::visit(
      [](const auto& o) -> wire::AgentRecord {
        using Order = std::decay_t<decltype(o)>;
        if constexpr (std::is_same_v<Order, Heal>)
          return wire::HealOrder{.attempt = o.attempt, .donors = o.donors};
        else if constexpr (std::is_same_v<Order, Release>)
          return wire::ReleaseOrder{};
        else
          return o;
      },
      order);
}

struct ToMessage {
  RankId rank;

  RankMessage operator()(const wire::Hello& r) const {
    return RankUp{.rank = rank, .endpoint = r.endpoint, .state_bytes = r.state_bytes};
  }
  RankMessage operator()(const PrepareReport& r) const {
    return FromRank{.rank = rank, .report = r};
  }
  RankMessage operator()(const wire::Entered& r) const {
    return RankEntered{.rank = rank, .epoch = r.epoch, .committed = r.committed, .step = r.step};
  }
  RankMessage operator()(const wire::Done& r) const {
    return RankDone{.rank = rank,
                    .has_left = r.has_left,
                    .committed = r.committed,
                    .state_digest = r.state_digest};
  }
  RankMessage operator()(const wire::PeerNotice& r) const {
    return PeerTrouble{.reporter = rank, .peer = r.peer, .what = r.what};
  }
  RankMessage operator()(const wire::TagNotice& r) const {
    return TagTrouble{.reporter = rank, .turn = r.turn};
  }
  RankMessage operator()(const wire::DigestNotice& r) const {
    return RankDigest{.rank = rank, .step = r.step, .digest = r.digest};
  }
  RankMessage operator()(const wire::HealNotice& r) const {
    return HealProgress{
        .rank = rank, .attempt = r.attempt, .what = r.what, .donor = r.donor, .detail = r.detail};
  }
};

}  // namespace

Result<RankSocket::Pair> RankSocket::make(RankId rank) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return Failure{ErrorCode::Io, str("socketpair: ", std::strerror(errno))};
  widen_buffer(ends[0]);
  widen_buffer(ends[1]);
  return Pair{RankSocket(rank, os::Descriptor(ends[0])), os::Descriptor(ends[1])};
}

bool RankSocket::send(const RankOrder& order) {
  if (has_ended_) return false;
  std::vector<std::byte> record = wire::encode(to_record(order));
  const Outcome outcome = queue_.empty() ? send_now(record) : Outcome::WouldBlock;
  if (outcome == Outcome::Sent) return true;
  const bool has_room =
      queue_.size() < kMaxQueuedRecords && queued_bytes_ + record.size() <= kMaxQueuedBytes;
  if (outcome == Outcome::Failed || !has_room) {
    ++dropped_;
    return false;
  }
  queued_bytes_ += record.size();
  queue_.push_back(std::move(record));
  return true;
}

void RankSocket::flush() {
  while (!queue_.empty()) {
    if (send_now(queue_.front()) == Outcome::WouldBlock) return;
    queued_bytes_ -= queue_.front().size();
    queue_.pop_front();
  }
}

RankSocket::Outcome RankSocket::send_now(const std::vector<std::byte>& record) {
  ssize_t sent = 0;
  do {
    sent = ::send(descriptor_.get(), record.data(), record.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) {
    dropped_ = 0;
    return Outcome::Sent;
  }
  return errno == EAGAIN ? Outcome::WouldBlock : Outcome::Failed;
}

std::vector<RankMessage> RankSocket::receive() {
  std::vector<RankMessage> messages;
  std::vector<std::byte> buffer(wire::kMaxRecordBytes);
  for (size_t i = 0; i < kMaxReadAtOnce && !has_ended_; ++i) {
    // MSG_TRUNC: the length of the whole record, also of one that does not fit.
    const ssize_t length =
        ::recv(descriptor_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && errno == EAGAIN) break;
    if (length <= 0) {
      has_ended_ = true;
      break;
    }
    if (static_cast<size_t>(length) > buffer.size()) {
      ++refused_;
      continue;
    }
    const Result<wire::RankRecord> record =
        wire::decode_rank_record(std::span(buffer).first(static_cast<size_t>(length)));
    if (record)
      messages.push_back(std::visit(ToMessage{rank_}, *record));
    else
      ++refused_;
  }
  return messages;
}

}  // namespace paceline::agent
