#include "live/worker/bucket.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace paceline::worker {

using collective::BlockMark;
using collective::Chunk;

Bucket::Bucket(std::string name, collective::BucketLayout layout, collective::Dtype dtype,
               ReduceMode mode)
    : name_(std::move(name)), layout_(std::move(layout)), dtype_(dtype), mode_(mode) {
  if (is_exact()) {
    own_exact_.resize(layout_.elements);
    sum_exact_.resize(layout_.elements);
    own_marks_.resize(layout_.blocks.size());
    sum_marks_.resize(layout_.blocks.size());
  } else {
    own_fast_.resize(layout_.elements);
    sum_fast_.resize(layout_.elements);
  }
  tags_.resize(layout_.chunks.size());
  published_.resize(layout_.elements);
}

void Bucket::set_micro_batches(uint32_t micro_batches) {
  if (is_exact() && !scales_) scales_.emplace(layout_.blocks.size(), micro_batches);
}

// --- The accumulator ---

void Bucket::accumulate(const void* gradient) {
  const collective::Gradient contribution{gradient, layout_.elements, dtype_};
  if (is_exact()) {
    collective::accumulate_exact(layout_, *scales_, contribution, own_exact_, own_marks_);
  } else {
    collective::accumulate_fast(contribution, own_fast_);
  }
}

void Bucket::clear_own() {
  std::fill(own_exact_.begin(), own_exact_.end(), 0);
  std::fill(own_fast_.begin(), own_fast_.end(), 0.0f);
  std::fill(own_marks_.begin(), own_marks_.end(), BlockMark{});
}

// --- The reduction ---

size_t Bucket::mark_count(const Chunk& chunk) const { return is_exact() ? chunk.block_count : 0; }

size_t Bucket::payload_bytes(uint32_t chunk) const {
  const Chunk& cut = layout_.chunks[chunk];
  return (mark_count(cut) + 3) / 4 * 4 + size_t{4} * cut.count;
}

Bucket::ChunkBytes Bucket::own_bytes(uint32_t chunk) {
  return bytes_of(
      own_marks_,
      is_exact() ? std::as_bytes(std::span(own_exact_)) : std::as_bytes(std::span(own_fast_)),
      layout_.chunks[chunk]);
}

Bucket::ChunkBytes Bucket::sum_bytes(uint32_t chunk) {
  return bytes_of(
      sum_marks_,
      is_exact() ? std::as_bytes(std::span(sum_exact_)) : std::as_bytes(std::span(sum_fast_)),
      layout_.chunks[chunk]);
}

Bucket::ChunkBytes Bucket::bytes_of(const std::vector<BlockMark>& marks,
                                    std::span<const std::byte> all, const Chunk& chunk) {
  const size_t count = mark_count(chunk);
  mark_scratch_.assign((count + 3) / 4 * 4, std::byte{0});
  if (count > 0) std::memcpy(mark_scratch_.data(), &marks[chunk.first_block], count);
  return {mark_scratch_, all.subspan(size_t{4} * chunk.begin, size_t{4} * chunk.count)};
}

void Bucket::store(uint32_t chunk, std::span<const std::byte> payload, uint64_t tag) {
  CHECK(payload.size() == payload_bytes(chunk), payload.size());
  const Chunk& cut = layout_.chunks[chunk];
  const size_t element_bytes = size_t{4} * cut.count;
  const std::byte* elements = payload.data() + (payload.size() - element_bytes);
  if (is_exact()) {
    std::memcpy(&sum_marks_[cut.first_block], payload.data(), cut.block_count);
    std::memcpy(&sum_exact_[cut.begin], elements, element_bytes);
  } else {
    std::memcpy(&sum_fast_[cut.begin], elements, element_bytes);
  }
  tags_[chunk] = tag;
}

void Bucket::add_own(uint32_t chunk, uint64_t tag) {
  const Chunk& cut = layout_.chunks[chunk];
  if (is_exact()) {
    collective::add_i32(part(sum_exact_, cut), part(own_exact_, cut));
    collective::merge_marks(marks_of(sum_marks_, cut), marks_of(own_marks_, cut));
  } else {
    collective::add_f32(part(sum_fast_, cut), part(own_fast_, cut));
  }
  tags_[chunk] += tag;
}

void Bucket::copy_own(uint32_t chunk, uint64_t tag) {
  const Chunk& cut = layout_.chunks[chunk];
  if (is_exact()) {
    std::memcpy(&sum_exact_[cut.begin], &own_exact_[cut.begin], size_t{4} * cut.count);
    std::memcpy(&sum_marks_[cut.first_block], &own_marks_[cut.first_block], cut.block_count);
  } else {
    std::memcpy(&sum_fast_[cut.begin], &own_fast_[cut.begin], size_t{4} * cut.count);
  }
  tags_[chunk] = tag;
}

// --- The complete sum ---

uint64_t Bucket::tag(uint64_t expected) const {
  const auto other =
      std::find_if(tags_.begin(), tags_.end(), [&](uint64_t tag) { return tag != expected; });
  return other == tags_.end() ? expected : *other;
}

bool Bucket::is_flagged() const { return is_exact() && scales_->is_flagged(sum_marks_); }

void Bucket::commit(bool is_flagged) {
  if (is_exact()) {
    if (!is_flagged) collective::to_float(layout_, *scales_, sum_marks_, sum_exact_, published_);
    scales_->apply_commit(sum_marks_, is_flagged);
  } else if (!is_flagged) {
    std::copy(sum_fast_.begin(), sum_fast_.end(), published_.begin());
  }
  clear_own();
}

void Bucket::save_scales(std::span<std::byte> bytes) const {
  if (scales_) scales_->save(bytes);
}

Status Bucket::load_scales(std::span<const std::byte> bytes) {
  return scales_ ? scales_->load(bytes) : Status();
}

}  // namespace paceline::worker
