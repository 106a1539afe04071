// Frames between ranks, as headers and as the stream of one accepted connection. Properties: an
// accepted header is exactly what the encoder makes of it; a connection hands out nothing before an
// Open with the job's token, only frames within bounds after it, and every frame once.
#include <sys/socket.h>

#include <optional>

#include "fuzz/fuzz_target.h"
#include "live/worker/frame.h"
#include "live/worker/incoming.h"
#include "live/worker/poller.h"

namespace paceline::fuzz {
namespace {

using worker::FrameHeader;
using worker::FrameKind;
using worker::FrameVerdict;
using worker::kFrameHeaderBytes;

constexpr uint64_t kToken = 0x746f'6b65'6e21;

FrameHeader random_header(Rng& rng) {
  FrameHeader header{.kind = static_cast<FrameKind>(
                         2 + rng.below(static_cast<uint64_t>(worker::kLastFrameKind) - 1)),
                     .epoch = EpochNumber(static_cast<uint32_t>(rng.below(9))),
                     .bucket = BucketId(static_cast<uint32_t>(rng.below(4))),
                     .chunk = static_cast<uint32_t>(rng.below(100)),
                     .hop = static_cast<uint32_t>(rng.below(16)),
                     .turn = Turn(rng.below(50)),
                     .tag = rng.next(),
                     .low = EpochNumber(static_cast<uint32_t>(rng.below(9))),
                     .high = EpochNumber(static_cast<uint32_t>(rng.below(9)))};
  if (header.kind == FrameKind::Chunk || worker::is_heal(header.kind))
    header.payload_bytes = static_cast<uint32_t>(4 * rng.below(40));
  return header;
}

void append(Bytes& stream, const FrameHeader& header) {
  const worker::FrameHeaderBytes bytes = encode_header(header);
  stream.insert(stream.end(), bytes.begin(), bytes.end());
  stream.resize(stream.size() + header.payload_bytes);
}

void check_header(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  const std::optional<FrameHeader> header = worker::decode_header(bytes);
  if (!header) return;
  const worker::FrameHeaderBytes again = encode_header(*header);
  CHECK(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
}

// The first bytes as an accepted connection gets them. Every third frame is kept once.
void check_connection(worker::Poller& poller, std::span<const std::byte> input) {
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const os::Descriptor sender(ends[0]);
  worker::Incoming incoming(poller, os::Descriptor(ends[1]), Instant());
  CHECK(::send(sender.get(), input.data(), input.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
        static_cast<ssize_t>(input.size()));
  CHECK(::shutdown(sender.get(), SHUT_WR) == 0);

  size_t handed_out = kFrameHeaderBytes;  // the Open
  uint32_t offers = 0;
  const auto take = [&](RankId, const FrameHeader& header, std::span<const std::byte> payload) {
    CHECK(header.kind != FrameKind::Open);
    CHECK(payload.size() == header.payload_bytes);
    const size_t size = kFrameHeaderBytes + payload.size();
    CHECK(handed_out + size <= input.size(), handed_out, " ", size, " ", input.size());
    CHECK(std::equal(payload.begin(), payload.end(),
                     input.begin() + static_cast<ptrdiff_t>(handed_out + kFrameHeaderBytes)));
    if (++offers % 3 == 0) return FrameVerdict::Keep;
    handed_out += size;
    return FrameVerdict::Taken;
  };
  // Each call takes a frame, ends the connection or reads at least a byte.
  for (size_t i = 0; i < input.size() + 2; ++i) {
    if (!incoming.read(kToken, Instant(), take)) break;
    if (!incoming.resume(take)) break;
  }
  CHECK(incoming.sender().has_value() || offers == 0);
  CHECK(!incoming.sender() || incoming.sender()->slot.value() < kMaxRanks);
}

}  // namespace

Bytes make_seed(Rng& rng) {
  Bytes stream;
  append(stream, {.kind = FrameKind::Open,
                  .sender = {SlotId(static_cast<uint32_t>(rng.below(8))), Incarnation(1)},
                  .hop = static_cast<uint32_t>(rng.below(2)),
                  .tag = kToken});
  for (uint64_t frames = rng.below(8); frames > 0; --frames) append(stream, random_header(rng));
  return stream;
}

void check_input(std::span<const std::byte> input) {
  for (size_t at = 0; at + kFrameHeaderBytes <= input.size(); at += kFrameHeaderBytes)
    check_header(input.subspan(at).first<kFrameHeaderBytes>());
  // One for the whole run: it is only a place to register with.
  static worker::Poller poller = worker::Poller::make().value();
  if (!input.empty()) check_connection(poller, input);
}

}  // namespace paceline::fuzz
