// What donors and joiners share: the copy of a rank's state, and the frames by which it travels.
//
// A joiner takes its state from two members (one if there are no two). It learns where they stand
// and names a turn X a little ahead; each copies its state at its first begin_step with at least X
// turns committed, which is the same turn on both, and says what the copy's chunks hash to. The
// first donor then sends the chunks, the sums of every turn that is committed later, and the epochs
// that it enters, all in order on one connection: so the joiner can follow.
//
//   HealAsk       joiner: turn = X, or kWhereAreYou; hop = attempt; low = 1: you are the first
//                 donor; payload = u32 address | u32 port to answer to
//   HealTurn      donor: turn = turns committed. The answer to kWhereAreYou, or X has passed
//   HealManifest  donor: turn, tag = step, hop = V of the copy; chunk = index of the first
//                 checksum here, low = how many there are in all; payload = u64 size of the copy
//                 | u64 digest of the state | u64 checksums
//   HealChunk     donor: chunk, low = bytes; payload = its bytes, filled up to a multiple of 4
//   HealChunkAsk  joiner: chunk; once more, please
//   HealGood      joiner: it has the whole copy, which may be freed
//   HealSum       donor: as Chunk, of a complete sum
//   HealCommit    donor: turn, whose sums have all been sent; low = 1: flagged
//   HealEpoch     donor: low = bytes; payload = wire::encode_epoch, filled up
//   HealDigest    donor: tag = digest of the state after `turn` committed turns, once a transfer
//   HealTrial     donor, once a transfer, in exact mode, before the HealCommit of `turn`: chunk = a
//                 micro-batch of it, tag = digest of the gradient that the donor has made of it,
//                 hop = threads, low = bytes; payload = type of the processor, filled up.
//                 hop = 0: it has none to make a trial of
//
// The joiner is compared with the donor three times before it counts: its state when the copy is in
// its registered memory, and when it has itself applied the sums of at least one more turn; and the
// gradient that it makes of the donor's micro-batch (trial.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "core/rank/rank_core.h"
#include "live/os/memfd.h"
#include "live/worker/frame.h"

namespace paceline::worker {

inline constexpr size_t kHealChunkBytes = 64 * 1024;
inline constexpr size_t kChecksumsPerFrame = 8 * 1024;
inline constexpr Turn kWhereAreYou{UINT64_MAX};
static_assert(kHealChunkBytes <= kMaxPayloadBytes);
inline constexpr size_t kManifestHeadBytes = 16;
static_assert(kManifestHeadBytes + 8 * kChecksumsPerFrame <= kMaxPayloadBytes);
// Of a joiner that takes its sums slower than the others commit: what it keeps itself, and what
// waits for it on its donor. Beyond both, the joiner is dropped.
inline constexpr size_t kMaxWaitingBytes = 512 << 20;

// A rank's state at a commit boundary: the registered parts, then the scales. A donor's is in a
// mapping of its own, which /proc shows by name, and goes back to the system as a whole.
struct Snapshot {
  rank::Position position;
  uint32_t micro_batches = 0;
  uint64_t digest = 0;              // of all bytes: what Job::state_digest() gives
  std::vector<uint64_t> checksums;  // of each kHealChunkBytes of them
  size_t size_bytes = 0;
  std::optional<os::SharedMemory> memory;

  // Room for so many bytes, shown by `label`.
  Status allocate(const char* label, size_t bytes);
  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(memory->data()), size_bytes};
  }
  // Touches every page, which takes far longer than to copy into pages that are there.
  void touch() const { std::ranges::fill(bytes(), std::byte{0}); }
  // Copies `parts`, size_bytes in all, one after the other, with their digest and checksums.
  void fill(std::span<const std::span<const std::byte>> parts);
  // The memfd's seals show that it is complete.
  void seal() const;
  // The same parts, from the copy.
  Status load(std::span<const std::span<std::byte>> parts) const;
};

uint64_t checksum(std::span<const std::byte> bytes);
inline size_t heal_chunks(size_t size_bytes) {
  return (size_bytes + kHealChunkBytes - 1) / kHealChunkBytes;
}
// Of a state of `size_bytes`, the size of chunk `index`.
inline size_t heal_chunk_bytes(size_t size_bytes, size_t index) {
  return std::min(kHealChunkBytes, size_bytes - index * kHealChunkBytes);
}

}  // namespace paceline::worker
