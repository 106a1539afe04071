#include "live/worker/outgoing.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace paceline::worker {
namespace {

constexpr size_t kMaxPieces = 64;  // of one writev

// Written at a time; then others may have the mutex. A heal goes on beside the steps of the donor,
// which wait for every hop of their reductions: it gets a fraction of a millisecond.
constexpr size_t max_flush_bytes(Channel channel) {
  return channel == Channel::Heal ? 128 << 10 : 4 << 20;
}

sockaddr_in address_of(Endpoint endpoint) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(endpoint.port);
  address.sin_addr.s_addr = htonl(endpoint.address != 0 ? endpoint.address : INADDR_LOOPBACK);
  return address;
}

}  // namespace

Outgoing::Outgoing(Poller& poller, Endpoint endpoint, Opening opening)
    : poller_(poller), endpoint_(endpoint), opening_(opening) {
  push({.kind = FrameKind::Open,
        .sender = opening.self,
        .hop = static_cast<uint32_t>(opening.channel),
        .tag = opening.token},
       {}, {});
}

void Outgoing::connect(Instant now) {
  close();
  socket_ = os::Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_.is_open()) {
    fail_attempt(now);
    return;
  }
  const int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const sockaddr_in address = address_of(endpoint_);
  const int result =
      ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (result != 0 && errno != EINPROGRESS) {
    fail_attempt(now);
    return;
  }
  state_ = State::Connecting;
  connecting_since_ = now;
  is_watching_output_ = true;
  key_ = poller_.add(socket_.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP);
}

void Outgoing::push(const FrameHeader& header, std::span<const std::byte> head,
                    std::span<const std::byte> body, std::shared_ptr<const void> keep) {
  if (state_ == State::Broken) return;
  const FrameHeaderBytes bytes = encode_header(header);
  Item item{.head = {bytes.begin(), bytes.end()}, .body = body, .keep = std::move(keep)};
  item.head.insert(item.head.end(), head.begin(), head.end());
  copied_bytes_ += item.head.size();
  queue_.push_back(std::move(item));
}

void Outgoing::flush() {
  const size_t max_bytes = max_flush_bytes(opening_.channel);
  size_t flushed = 0;
  while (state_ == State::Open && !queue_.empty()) {
    if (flushed >= max_bytes) {
      watch(true);
      return;
    }
    std::array<iovec, kMaxPieces> pieces{};
    size_t count = 0;
    size_t skip = sent_of_first_;
    size_t room = max_bytes - flushed;
    for (const Item& item : queue_) {
      if (count + 2 > kMaxPieces || room == 0) break;
      for (const std::span<const std::byte> part : {std::span(item.head), item.body}) {
        const size_t skipped = std::min(skip, part.size());
        skip -= skipped;
        if (skipped == part.size()) continue;
        const std::span<const std::byte> rest =
            part.subspan(skipped).first(std::min(part.size() - skipped, room));
        room -= rest.size();
        pieces[count++] = {const_cast<std::byte*>(rest.data()), rest.size()};
      }
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) {
        break_off();
        return;
      }
      watch(true);
      return;
    }
    flushed += static_cast<size_t>(sent);
    drop_sent(static_cast<size_t>(sent));
  }
  if (state_ == State::Open) watch(false);
}

void Outgoing::drop_sent(size_t size_bytes) {
  size_t rest = sent_of_first_ + size_bytes;
  while (!queue_.empty() && rest >= queue_.front().size()) {
    rest -= queue_.front().size();
    copied_bytes_ -= queue_.front().head.size();
    queue_.pop_front();
  }
  sent_of_first_ = rest;
}

void Outgoing::handle(uint32_t events, Instant now) {
  if (state_ == State::Connecting) {
    finish_connect(now);
    return;
  }
  if (state_ != State::Open) return;
  // Nothing is ever sent this way: what can be read is the end of the connection, or a fault.
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
    break_off();
    return;
  }
  if ((events & EPOLLOUT) != 0) flush();
}

void Outgoing::finish_connect(Instant now) {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    fail_attempt(now);
    return;
  }
  sockaddr_in peer{};
  socklen_t peer_size = sizeof peer;
  if (::getpeername(socket_.get(), reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) return;
  state_ = State::Open;
  flush();
}

void Outgoing::check_attempt(Instant now) {
  if (state_ == State::Connecting && now - connecting_since_ >= kConnectLimit) fail_attempt(now);
}

void Outgoing::fail_attempt(Instant now) {
  close();
  ++failed_attempts_;
  state_ = State::Retrying;
  retry_at_ = now + kConnectRetry;
}

void Outgoing::break_off() {
  close();
  state_ = State::Broken;
  queue_.clear();
  sent_of_first_ = 0;
  copied_bytes_ = 0;
}

void Outgoing::close() {
  if (!socket_.is_open()) return;
  poller_.remove(socket_.get());
  // A forked child may hold a copy of the descriptor: closing ours alone would end nothing.
  ::shutdown(socket_.get(), SHUT_RDWR);
  socket_.reset();
  key_ = 0;
}

void Outgoing::watch(bool for_output) {
  if (for_output == is_watching_output_) return;
  is_watching_output_ = for_output;
  const uint32_t output = for_output ? uint32_t{EPOLLOUT} : 0u;
  poller_.change(key_, socket_.get(), EPOLLIN | EPOLLRDHUP | output);
}

}  // namespace paceline::worker
