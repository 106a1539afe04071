#include "live/worker/incoming.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace paceline::worker {
namespace {

// Several chunks per call of the kernel. REQUIRES: at least one whole frame.
constexpr size_t kBufferBytes = 256 * 1024;
constexpr size_t kLargestFrame = kFrameHeaderBytes + kMaxPayloadBytes;
static_assert(kBufferBytes >= kLargestFrame);
constexpr int kMaxReads = 4;  // then it is another connection's turn

}  // namespace

Incoming::Incoming(Poller& poller, os::Descriptor socket, Instant now)
    : poller_(poller),
      socket_(std::move(socket)),
      key_(poller.add(socket_.get(), EPOLLIN)),
      opened_(now),
      last_heard_(now),
      buffer_(kFrameHeaderBytes) {}

Incoming::~Incoming() {
  poller_.remove(socket_.get());
  ::shutdown(socket_.get(), SHUT_RDWR);  // a forked child may hold a copy
}

bool Incoming::read(uint64_t token, Instant now, const Take& take) {
  for (int i = 0; i < kMaxReads && !is_paused_; ++i) {
    make_room();
    const size_t room = buffer_.size() - end_;
    const ssize_t size = ::recv(socket_.get(), buffer_.data() + end_, room, MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (size <= 0) return false;
    last_heard_ = now;
    end_ += static_cast<size_t>(size);
    if (!sender_ && end_ - begin_ == kFrameHeaderBytes && !authenticate(token)) return false;
    if (sender_ && !hand_out(take)) return false;
    if (static_cast<size_t>(size) < room) return true;  // that was all, the poller tells of more
  }
  return true;
}

bool Incoming::authenticate(uint64_t token) {
  const auto header = decode_header(std::span(buffer_).first<kFrameHeaderBytes>());
  if (!header || header->kind != FrameKind::Open || header->tag != token) return false;
  if (header->sender.slot.value() >= kMaxRanks) return false;
  if (header->hop > static_cast<uint32_t>(Channel::Heal)) return false;
  sender_ = header->sender;
  channel_ = static_cast<Channel>(header->hop);
  begin_ = end_ = 0;
  buffer_.resize(kBufferBytes);
  return true;
}

bool Incoming::resume(const Take& take) { return !is_paused_ || hand_out(take); }

bool Incoming::hand_out(const Take& take) {
  while (end_ - begin_ >= kFrameHeaderBytes) {
    const std::span<const std::byte> rest(buffer_.data() + begin_, end_ - begin_);
    const auto header = decode_header(rest.first<kFrameHeaderBytes>());
    if (!header || header->kind == FrameKind::Open) return false;
    const size_t size = kFrameHeaderBytes + header->payload_bytes;
    if (rest.size() < size) break;
    const FrameVerdict verdict =
        take(*sender_, *header, rest.subspan(kFrameHeaderBytes, header->payload_bytes));
    if (verdict == FrameVerdict::Refuse) return false;
    set_paused(verdict == FrameVerdict::Keep);
    if (is_paused_) return true;
    newest_ = std::max(newest_, header->epoch);
    begin_ += size;
  }
  set_paused(false);
  return true;
}

void Incoming::set_paused(bool is_paused) {
  if (is_paused == is_paused_) return;
  is_paused_ = is_paused;
  poller_.change(key_, socket_.get(), is_paused ? 0u : uint32_t{EPOLLIN});
}

// Leaves what has begun where it is as long as any frame fits in behind it.
void Incoming::make_room() {
  const bool is_empty = begin_ == end_;
  if (begin_ == 0 || (!is_empty && buffer_.size() - begin_ >= kLargestFrame)) return;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
}

}  // namespace paceline::worker
