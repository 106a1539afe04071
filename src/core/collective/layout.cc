#include "core/collective/layout.h"

#include <algorithm>

#include "base/check.h"

namespace paceline::collective {
namespace {

void append_blocks(uint64_t begin, uint64_t elements, std::vector<Block>& blocks) {
  for (uint64_t cut = 0; cut < elements; cut += kMaxBlockElements) {
    const uint64_t count = std::min<uint64_t>(elements - cut, kMaxBlockElements);
    blocks.push_back({.begin = begin + cut, .count = static_cast<uint32_t>(count)});
  }
}

// First fit in order: a chunk takes the next block as long as there is room for the whole of it.
std::vector<Chunk> group_into_chunks(const std::vector<Block>& blocks) {
  std::vector<Chunk> chunks;
  for (uint32_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    if (chunks.empty() || chunks.back().count + block.count > kMaxChunkElements)
      chunks.push_back({.first_block = i, .begin = block.begin});
    chunks.back().block_count += 1;
    chunks.back().count += block.count;
  }
  return chunks;
}

}  // namespace

Result<BucketLayout> make_layout(std::span<const uint64_t> element_counts) {
  if (element_counts.size() > kMaxBucketTensors)
    return Failure{ErrorCode::InvalidArgument, str("a bucket of ", element_counts.size(),
                                                   " tensors; the most is ", kMaxBucketTensors)};
  BucketLayout layout;
  for (const uint64_t count : element_counts) {
    if (count > kMaxBucketElements - layout.elements)
      return Failure{ErrorCode::InvalidArgument,
                     str("a bucket of more than ", kMaxBucketElements, " elements")};
    append_blocks(layout.elements, count, layout.blocks);
    layout.elements += count;
  }
  if (layout.elements == 0) return Failure{ErrorCode::InvalidArgument, "a bucket without elements"};
  layout.chunks = group_into_chunks(layout.blocks);
  CHECK(layout.chunks.back().begin + layout.chunks.back().count == layout.elements);
  return layout;
}

}  // namespace paceline::collective
