// Goal: any list of tensors is partitioned into blocks and chunks within their bounds. Method:
// known cuts, then random lists against the invariants.
#include "core/collective/layout.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "base/rng.h"

namespace paceline::collective {
namespace {

uint64_t test_seed() {
  const char* text = std::getenv("PACELINE_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 20260102;
  std::cout << "PACELINE_TEST_SEED=" << seed << "\n";
  return seed;
}

constexpr uint32_t kKi = 1024;

TEST(Layout, MixedTensors_CutAsInTheHeader) {
  const std::vector<uint64_t> tensors = {40 * kKi, 3, kKi};
  const Result<BucketLayout> layout = make_layout(tensors);
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->elements, 41u * kKi + 3);
  const std::vector<Block> blocks = {
      {0, 16 * kKi}, {16 * kKi, 16 * kKi}, {32 * kKi, 8 * kKi}, {40 * kKi, 3}, {40 * kKi + 3, kKi}};
  EXPECT_EQ(layout->blocks, blocks);
  const std::vector<Chunk> chunks = {
      {0, 1, 0, 16 * kKi}, {1, 1, 16 * kKi, 16 * kKi}, {2, 3, 32 * kKi, 9 * kKi + 3}};
  EXPECT_EQ(layout->chunks, chunks);
}

TEST(Layout, BlockThatDoesNotFit_StartsTheNextChunkWhole) {
  const std::vector<uint64_t> tensors = {10 * kKi, 10 * kKi};
  const Result<BucketLayout> layout = make_layout(tensors);
  ASSERT_TRUE(layout.has_value());
  const std::vector<Chunk> chunks = {{0, 1, 0, 10 * kKi}, {1, 1, 10 * kKi, 10 * kKi}};
  EXPECT_EQ(layout->chunks, chunks);
}

TEST(Layout, BlocksThatJustFit_ShareAChunk) {
  const std::vector<uint64_t> tensors = {8 * kKi, 8 * kKi, 1};
  const Result<BucketLayout> layout = make_layout(tensors);
  ASSERT_TRUE(layout.has_value());
  const std::vector<Chunk> chunks = {{0, 2, 0, 16 * kKi}, {2, 1, 16 * kKi, 1}};
  EXPECT_EQ(layout->chunks, chunks);
}

TEST(Layout, EmptyTensor_HasNoBlock) {
  const std::vector<uint64_t> tensors = {0, 5, 0};
  const Result<BucketLayout> layout = make_layout(tensors);
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->blocks, (std::vector<Block>{{0, 5}}));
}

TEST(Layout, OutOfBounds_Refused) {
  const std::vector<std::vector<uint64_t>> refused = {
      {}, {0, 0}, {kMaxBucketElements + 1}, {1, UINT64_MAX}, {kMaxBucketElements, 1}};
  for (const std::vector<uint64_t>& tensors : refused) {
    const Result<BucketLayout> layout = make_layout(tensors);
    ASSERT_FALSE(layout.has_value());
    EXPECT_EQ(layout.error().code, ErrorCode::InvalidArgument);
  }
  EXPECT_FALSE(make_layout(std::vector<uint64_t>(kMaxBucketTensors + 1, 1)).has_value());
}

TEST(Layout, RandomTensors_PartitionedWithinBounds) {
  Rng rng(test_seed());
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> tensors(rng.below(20) + 1);
    for (uint64_t& count : tensors) count = rng.below(rng.below(2) == 0 ? 50 : 50'000) + 1;
    const Result<BucketLayout> made = make_layout(tensors);
    ASSERT_TRUE(made.has_value());
    const BucketLayout& layout = made.value();

    size_t tensor = 0;
    uint64_t tensor_end = tensors[0], end = 0;
    for (const Block& block : layout.blocks) {
      ASSERT_EQ(block.begin, end);
      ASSERT_TRUE(block.count >= 1 && block.count <= kMaxBlockElements);
      if (end == tensor_end) tensor_end += tensors[++tensor];
      end += block.count;
      ASSERT_LE(end, tensor_end) << "a block straddles two tensors";
    }
    ASSERT_EQ(end, layout.elements);

    uint32_t next_block = 0;
    for (const Chunk& chunk : layout.chunks) {
      ASSERT_EQ(chunk.first_block, next_block);
      ASSERT_GE(chunk.block_count, 1u);
      ASSERT_LE(chunk.count, kMaxChunkElements);
      ASSERT_EQ(chunk.begin, layout.blocks[next_block].begin);
      next_block += chunk.block_count;
      const Block& last = layout.blocks[next_block - 1];
      ASSERT_EQ(chunk.begin + chunk.count, last.begin + last.count);
    }
    ASSERT_EQ(next_block, layout.blocks.size());
  }
}

}  // namespace
}  // namespace paceline::collective
