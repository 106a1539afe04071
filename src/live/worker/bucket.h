// Bucket: the memory of one bucket of gradients. What this rank has accumulated, the sum that is
// being reduced, and the sum of the last committed step as floats; with the marks, tags and scales
// that belong to each.
//
// The accumulator is written by the training thread alone, and not while a reduction reads it; the
// rest is under the job's mutex. A chunk's bytes on the wire are its marks, filled up to a multiple
// of 4, then its elements.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/collective/exact.h"
#include "core/collective/layout.h"
#include "core/model/job.h"

namespace paceline::worker {

class Bucket {
 public:
  Bucket(std::string name, collective::BucketLayout layout, collective::Dtype dtype,
         ReduceMode mode);

  const collective::BucketLayout& layout() const { return layout_; }
  const std::string& name() const { return name_; }
  uint32_t chunk_count() const { return static_cast<uint32_t>(layout_.chunks.size()); }
  uint64_t gradient_bytes() const { return layout_.elements * collective::size_bytes(dtype_); }
  // Before anything is accumulated. Idempotent.
  void set_micro_batches(uint32_t micro_batches);

  // --- The accumulator ---
  void accumulate(const void* gradient);
  void clear_own();

  // --- The reduction ---
  struct ChunkBytes {
    std::span<const std::byte> marks;  // a multiple of 4; valid until the next call
    std::span<const std::byte> elements;
  };
  ChunkBytes own_bytes(uint32_t chunk);
  ChunkBytes sum_bytes(uint32_t chunk);
  uint64_t sum_tag(uint32_t chunk) const { return tags_[chunk]; }
  size_t payload_bytes(uint32_t chunk) const;
  // REQUIRES: payload.size() == payload_bytes(chunk).
  void store(uint32_t chunk, std::span<const std::byte> payload, uint64_t tag);
  void add_own(uint32_t chunk, uint64_t tag);
  void copy_own(uint32_t chunk, uint64_t tag);

  // --- The complete sum ---
  // `expected` if every chunk has that tag, else one that differs.
  uint64_t tag(uint64_t expected) const;
  bool is_flagged() const;
  // Enters the marks in the scales; publishes the sum unless the turn was flagged.
  void commit(bool is_flagged);
  const float* published() const { return published_.data(); }

  // The scales, which are registered state. Empty in fast mode.
  size_t scales_bytes() const {
    return is_exact() ? 1 + layout_.blocks.size() * collective::kHistory : 0;
  }
  void save_scales(std::span<std::byte> bytes) const;
  Status load_scales(std::span<const std::byte> bytes);

 private:
  bool is_exact() const { return mode_ == ReduceMode::Exact; }
  size_t mark_count(const collective::Chunk& chunk) const;
  ChunkBytes bytes_of(const std::vector<collective::BlockMark>& marks,
                      std::span<const std::byte> all, const collective::Chunk& chunk);
  template <class T>
  std::span<T> part(std::vector<T>& all, const collective::Chunk& chunk) {
    return std::span(all).subspan(chunk.begin, chunk.count);
  }
  std::span<collective::BlockMark> marks_of(std::vector<collective::BlockMark>& marks,
                                            const collective::Chunk& chunk) {
    return std::span(marks).subspan(chunk.first_block, mark_count(chunk));
  }

  std::string name_;
  collective::BucketLayout layout_;
  collective::Dtype dtype_;
  ReduceMode mode_;
  std::optional<collective::BucketScales> scales_;

  // Of the two kinds of accumulator and sum, one is used and the other is empty.
  std::vector<int32_t> own_exact_, sum_exact_;
  std::vector<float> own_fast_, sum_fast_;
  std::vector<collective::BlockMark> own_marks_, sum_marks_;  // one per block; empty if fast
  std::vector<uint64_t> tags_;                                // of the sum, one per chunk
  std::vector<float> published_;
  std::vector<std::byte> mark_scratch_;
};

}  // namespace paceline::worker
