#include "live/worker/frame.h"

namespace paceline::worker {
namespace {

template <class T>
void put(FrameHeaderBytes& bytes, size_t at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    bytes[at + i] = static_cast<std::byte>((value >> (8 * i)) & 0xff);
}

template <class T>
T get(std::span<const std::byte, kFrameHeaderBytes> bytes, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<uint64_t>(bytes[at + i]) << (8 * i);
  return static_cast<T>(value);
}

}  // namespace

FrameHeaderBytes encode_header(const FrameHeader& header) {
  FrameHeaderBytes bytes{};
  put(bytes, 0, kFrameMagic);
  put(bytes, 4, static_cast<uint32_t>(header.kind));  // the kind, then three zeros
  put(bytes, 8, header.sender.slot.value());
  put(bytes, 12, header.sender.incarnation.value());
  put(bytes, 16, header.epoch.value());
  put(bytes, 20, header.bucket.value());
  put(bytes, 24, header.chunk);
  put(bytes, 28, header.hop);
  put(bytes, 32, header.turn.value());
  put(bytes, 40, header.tag);
  put(bytes, 48, header.low.value());
  put(bytes, 52, header.high.value());
  put(bytes, 56, header.payload_bytes);
  return bytes;
}

std::optional<FrameHeader> decode_header(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  if (get<uint32_t>(bytes, 0) != kFrameMagic || get<uint32_t>(bytes, 60) != 0) return std::nullopt;
  const auto kind = get<uint32_t>(bytes, 4);
  if (kind < 1 || kind > static_cast<uint32_t>(kLastFrameKind)) return std::nullopt;
  const FrameHeader header{
      .kind = static_cast<FrameKind>(kind),
      .sender = {SlotId(get<uint32_t>(bytes, 8)), Incarnation(get<uint32_t>(bytes, 12))},
      .epoch = EpochNumber(get<uint32_t>(bytes, 16)),
      .bucket = BucketId(get<uint32_t>(bytes, 20)),
      .chunk = get<uint32_t>(bytes, 24),
      .hop = get<uint32_t>(bytes, 28),
      .turn = Turn(get<uint64_t>(bytes, 32)),
      .tag = get<uint64_t>(bytes, 40),
      .low = EpochNumber(get<uint32_t>(bytes, 48)),
      .high = EpochNumber(get<uint32_t>(bytes, 52)),
      .payload_bytes = get<uint32_t>(bytes, 56),
  };
  if (header.payload_bytes > kMaxPayloadBytes || header.payload_bytes % 4 != 0) return std::nullopt;
  const bool may_have_payload = header.kind == FrameKind::Chunk || is_heal(header.kind);
  if (!may_have_payload && header.payload_bytes != 0) return std::nullopt;
  return header;
}

}  // namespace paceline::worker
