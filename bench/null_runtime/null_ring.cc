#include "null_runtime/null_ring.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/check.h"

namespace paceline::bench {
namespace {

constexpr size_t kReadBytes = size_t{256} * 1024;
constexpr int kPeerLimitMs = 60'000;

void append(std::vector<std::byte>& bytes, std::span<const std::byte> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

bool would_block() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

NullRing::NullRing(MemberIndex members, MemberIndex self, Links links)
    : members_(members), self_(self), links_(links) {
  if (members_ == 1) return;
  for (const int link : {links_.next, links_.previous})
    CHECK(::fcntl(link, F_SETFL, ::fcntl(link, F_GETFL) | O_NONBLOCK) == 0, link);
}

bool NullRing::reduce(std::vector<worker::Bucket>& buckets) {
  start(buckets);
  take_frames(buckets);  // what came early, from a member that was done with the last step sooner
  while (!is_done()) {
    if (!exchange(complete_ < rings_.size())) return false;
    take_frames(buckets);
  }
  outgoing_.clear();
  sent_ = 0;
  return true;
}

// A token goes round twice: the first round says that all are here, the second tells everybody.
bool NullRing::barrier() {
  if (members_ == 1) return true;
  for (int round = 0; round < 2; ++round) {
    const bool is_first = self_ == 0;
    if (!is_first && !take_token()) return false;
    append(outgoing_, std::as_bytes(std::span(&kToken, 1)));
    while (sent_ < outgoing_.size())
      if (!exchange(false)) return false;
    outgoing_.clear();
    sent_ = 0;
    if (is_first && !take_token()) return false;
  }
  return true;
}

bool NullRing::take_token() {
  while (incoming_.size() < sizeof(kToken))
    if (!exchange(true)) return false;
  Header header;
  std::memcpy(&header, incoming_.data(), sizeof(header));
  CHECK(header.bucket == kToken.bucket, header.bucket);
  incoming_.erase(incoming_.begin(), incoming_.begin() + sizeof(header));
  return true;
}

void NullRing::start(std::vector<worker::Bucket>& buckets) {
  complete_ = 0;
  rings_.clear();
  for (const worker::Bucket& bucket : buckets)
    rings_.emplace_back(collective::RingReduction::Shape{
        .members = members_, .self = self_, .chunks = bucket.chunk_count()});
  for (uint32_t i = 0; i < buckets.size(); ++i) {
    rings_[i].own_ready();
    run(buckets, i);
  }
}

void NullRing::run(std::vector<worker::Bucket>& buckets, uint32_t index) {
  using Kind = collective::RingAction::Kind;
  for (const collective::RingAction& action : rings_[index].take_actions()) {
    if (action.kind == Kind::CopyOwn)
      buckets[index].copy_own(action.chunk, 0);
    else if (action.kind == Kind::AddOwn)
      buckets[index].add_own(action.chunk, 0);
    else if (action.kind == Kind::Complete)
      ++complete_;
    else
      send(buckets[index], index, action);
  }
}

void NullRing::send(worker::Bucket& bucket, uint32_t index, const collective::RingAction& action) {
  const bool is_own = action.kind == collective::RingAction::Kind::SendOwn;
  const worker::Bucket::ChunkBytes bytes =
      is_own ? bucket.own_bytes(action.chunk) : bucket.sum_bytes(action.chunk);
  const Header header{
      .bucket = index,
      .chunk = action.chunk,
      .hop = action.hop,
      .payload_bytes = static_cast<uint32_t>(bytes.marks.size() + bytes.elements.size())};
  append(outgoing_, std::as_bytes(std::span(&header, 1)));
  append(outgoing_, bytes.marks);
  append(outgoing_, bytes.elements);
}

bool NullRing::exchange(bool wants_more) {
  const bool has_output = sent_ < outgoing_.size();
  std::array<pollfd, 2> links{
      {{.fd = links_.next, .events = static_cast<short>(has_output ? POLLOUT : 0), .revents = 0},
       {.fd = links_.previous,
        .events = static_cast<short>(wants_more ? POLLIN : 0),
        .revents = 0}}};
  const int ready = ::poll(links.data(), links.size(), kPeerLimitMs);
  if (ready < 0) return errno == EINTR;
  if (ready == 0) return false;
  if (has_output && links[0].revents != 0 && !flush()) return false;
  return !wants_more || links[1].revents == 0 || fill();
}

bool NullRing::flush() {
  const ssize_t count =
      ::send(links_.next, outgoing_.data() + sent_, outgoing_.size() - sent_, MSG_NOSIGNAL);
  if (count < 0) return would_block();
  sent_ += static_cast<size_t>(count);
  return true;
}

bool NullRing::fill() {
  const size_t known = incoming_.size();
  incoming_.resize(known + kReadBytes);
  const ssize_t count = ::recv(links_.previous, incoming_.data() + known, kReadBytes, 0);
  incoming_.resize(known + static_cast<size_t>(count > 0 ? count : 0));
  return count > 0 || (count < 0 && would_block());
}

// Stops when the step is complete: what follows is of the next one.
void NullRing::take_frames(std::vector<worker::Bucket>& buckets) {
  while (complete_ < rings_.size()) {
    Header header;
    if (incoming_.size() - taken_ < sizeof(header)) break;
    std::memcpy(&header, incoming_.data() + taken_, sizeof(header));
    if (incoming_.size() - taken_ < sizeof(header) + header.payload_bytes) break;
    CHECK(header.bucket < rings_.size(), header.bucket);
    const std::span<const std::byte> payload(incoming_.data() + taken_ + sizeof(header),
                                             header.payload_bytes);
    CHECK(rings_[header.bucket].received(header.chunk, header.hop), header.chunk, header.hop);
    buckets[header.bucket].store(header.chunk, payload, 0);
    taken_ += sizeof(header) + header.payload_bytes;
    run(buckets, header.bucket);
  }
  incoming_.erase(incoming_.begin(), incoming_.begin() + static_cast<ptrdiff_t>(taken_));
  taken_ = 0;
}

}  // namespace paceline::bench
