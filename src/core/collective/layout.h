// BucketLayout: how a bucket (a list of tensors, one after the other) is cut.
//
// A *block* is what shares one scale in exact mode: a tensor, or a part of one of at most 16 Ki
// elements. It never straddles two tensors, whose magnitudes may differ by many powers of two.
// A *chunk* is what travels at once: consecutive whole blocks, at most 16 Ki elements in total, so
// at most 64 KiB of int32 or float. Both depend on the shapes alone, never on the number of ranks:
// the scales, which are registered state, mean the same after any change of membership.
//
//   tensors   [--- 40 Ki ---------------][ 3 ][ 1 Ki ]
//   blocks    [ 16 Ki ][ 16 Ki ][ 8 Ki ][ 3 ][ 1 Ki ]
//   chunks    [ 16 Ki ][ 16 Ki ][ 8 Ki    3    1 Ki ]
//
// Invariants: blocks and chunks partition the bucket in order, without a gap; none is empty.
// Immutable once made.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace paceline::collective {

inline constexpr uint32_t kMaxBlockElements = 16 * 1024;
inline constexpr uint32_t kMaxChunkElements = 16 * 1024;
inline constexpr uint64_t kMaxBucketElements = uint64_t{1} << 32;
inline constexpr uint64_t kMaxBucketTensors = uint64_t{1} << 20;
static_assert(kMaxBlockElements <= kMaxChunkElements, "a chunk holds whole blocks");

struct Block {
  uint64_t begin = 0;  // index of its first element in the bucket
  uint32_t count = 0;  // elements
  bool operator==(const Block&) const = default;
};

struct Chunk {
  uint32_t first_block = 0;
  uint32_t block_count = 0;
  uint64_t begin = 0;  // index of its first element in the bucket
  uint32_t count = 0;  // elements
  bool operator==(const Chunk&) const = default;
};

struct BucketLayout {
  uint64_t elements = 0;
  std::vector<Block> blocks;
  std::vector<Chunk> chunks;
  bool operator==(const BucketLayout&) const = default;
};

// Cuts a bucket of tensors with these element counts. A tensor without elements has no block; a
// bucket without elements, or beyond the bounds above, is refused. O(tensors + blocks).
Result<BucketLayout> make_layout(std::span<const uint64_t> element_counts);

}  // namespace paceline::collective
