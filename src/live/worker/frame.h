// Frames between ranks: a fixed header of 64 bytes, then a payload that chunks and transfers have.
//
//   frame   := header | payload
//   header  := u32 magic | u8 kind | u8[3] zero | u32 slot | u32 incarnation | u32 epoch
//              | u32 bucket | u32 chunk | u32 hop | u64 turn | u64 tag | u32 low | u32 high
//              | u32 payload_bytes | u32 zero
//   payload := u8 mark per block, filled up to a multiple of 4 | 4 bytes per element
//
// Little-endian. A payload is a multiple of 4 bytes, so elements stay aligned in a receive buffer.
//
//   Open   first on every connection: slot and incarnation say who opens it, tag is the job's token
//   Chunk  a partial or complete sum of one chunk at hop `hop` of its ring; tag is the sum of the
//          tags of the micro-batches in it
//   Vote   hop, low and high as in core/model/control_message.h
//   Beat   "I am alive": epoch alone
//   Barrier  chunk is the level, hop the hop as in core/rank/barrier.h; tag is 1 in a refusal
//   Heal*  the transfer of a joiner's state; grammar in heal.h. `high` numbers the joiner's
//   requests
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/model/ids.h"

namespace paceline::worker {

inline constexpr size_t kFrameHeaderBytes = 64;
inline constexpr uint32_t kFrameMagic = 0x31464350;  // "PCF1"
// A chunk of 16 Ki elements, and one mark for each of at most as many blocks.
inline constexpr uint32_t kMaxPayloadBytes = 16 * 1024 * (4 + 1);

enum class FrameKind : uint8_t {
  Open = 1,
  Chunk = 2,
  Vote = 3,
  Beat = 4,
  Barrier = 5,
  HealAsk,
  HealTurn,
  HealManifest,
  HealChunk,
  HealChunkAsk,
  HealSum,
  HealCommit,
  HealEpoch,
  HealDigest,
  HealGood,
  HealTrial
};
inline constexpr FrameKind kLastFrameKind = FrameKind::HealTrial;
constexpr bool is_heal(FrameKind kind) { return kind >= FrameKind::HealAsk; }

// A quiesce ends what is under way of step operations; a transfer goes on. Stated in Open, as hop.
enum class Channel : uint8_t { Step = 0, Heal = 1 };

struct FrameHeader {
  FrameKind kind = FrameKind::Beat;
  RankId sender{};  // Open only
  EpochNumber epoch{};
  BucketId bucket{};
  uint32_t chunk = 0;
  uint32_t hop = 0;
  Turn turn{};
  uint64_t tag = 0;
  EpochNumber low{}, high{};
  uint32_t payload_bytes = 0;
  bool operator==(const FrameHeader&) const = default;
};

using FrameHeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

FrameHeaderBytes encode_header(const FrameHeader& header);
// Nothing if these are not the bytes of a header within its bounds.
std::optional<FrameHeader> decode_header(std::span<const std::byte, kFrameHeaderBytes> bytes);

}  // namespace paceline::worker
