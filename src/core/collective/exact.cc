#include "core/collective/exact.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/vectorise.h"
#include "core/model/ids.h"

namespace paceline::collective {
namespace {

// Sums stay within 2^kSumBits in magnitude.
constexpr int kSumBits = 30;
constexpr float kLargestSum = 0x1p30f;
// A float of biased exponent e is below 2^(e - kExponentBias) in magnitude.
constexpr int kExponentBias = 126;
constexpr uint32_t kMagnitude = 0x7fff'ffff;

// Inputs of 16 bits are widened in tiles on the stack.
constexpr size_t kTileElements = 1024;

float power_of_two(int exponent) {
  CHECK(exponent >= -126 && exponent <= 127, exponent);
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

// --- Loops over elements; each vectorises ---

// |x| as bits. Magnitudes of floats order as the integers of their bits, and every NaN is above
// infinity; reading bits keeps denormals in flush-to-zero modes.
int32_t magnitude(float x) { return static_cast<int32_t>(std::bit_cast<uint32_t>(x) & kMagnitude); }

// To nearest, ties to even. The same as lrint, which g++ does not vectorise: it gives 64 bits.
int32_t round_to_even(float x) {
#if defined(__GNUC__) && !defined(__clang__)
  return __builtin_irintf(x);
#else
  return static_cast<int32_t>(std::lrint(x));
#endif
}

// 0 for what is beyond 2^kSumBits or no number, so that it is defined for every float.
uint32_t quantised(float x, float factor) {
  const float scaled = x * factor;
  return static_cast<uint32_t>(round_to_even(std::fabs(scaled) <= kLargestSum ? scaled : 0.0f));
}

PACELINE_VECTORISE int32_t largest_magnitude(std::span<const float> x) {
  int32_t largest = 0;
  for (const float value : x) largest = std::max(largest, magnitude(value));
  return largest;
}

// Returns the largest magnitude too: whether the elements fit is known when they have been read,
// and reading them twice costs more than taking them back once in a long while. Wraps.
PACELINE_VECTORISE int32_t add_quantised(std::span<const float> x, float factor,
                                         std::span<int32_t> accumulator) {
  const float* __restrict in = x.data();
  int32_t* __restrict out = accumulator.data();
  int32_t largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, magnitude(in[i]));
    out[i] = static_cast<int32_t>(static_cast<uint32_t>(out[i]) + quantised(in[i], factor));
  }
  return largest;
}

// Leaves what was there before add_quantised().
PACELINE_VECTORISE void take_back_quantised(std::span<const float> x, float factor,
                                            std::span<int32_t> accumulator) {
  const float* __restrict in = x.data();
  int32_t* __restrict out = accumulator.data();
  for (size_t i = 0; i < x.size(); ++i)
    out[i] = static_cast<int32_t>(static_cast<uint32_t>(out[i]) - quantised(in[i], factor));
}

PACELINE_VECTORISE void scale_sums(std::span<const int32_t> sums, float factor,
                                   std::span<float> out) {
  const int32_t* __restrict integers = sums.data();
  float* __restrict values = out.data();
  for (size_t i = 0; i < sums.size(); ++i) values[i] = static_cast<float>(integers[i]) * factor;
}

template <float (*widen)(uint16_t)>
std::span<const float> widen_tile(std::span<const uint16_t> in, std::span<float> tile) {
  for (size_t i = 0; i < in.size(); ++i) tile[i] = widen(in[i]);
  return tile.first(in.size());
}

// Calls `use(begin, values)` for elements [begin, begin + count) of the gradient, as float, in one
// or several pieces.
template <class Use>
void for_each_piece(const Gradient& gradient, uint64_t begin, size_t count, Use use) {
  if (gradient.dtype == Dtype::F32) {
    use(begin, std::span(static_cast<const float*>(gradient.data) + begin, count));
    return;
  }
  const std::span in(static_cast<const uint16_t*>(gradient.data) + begin, count);
  std::array<float, kTileElements> tile;
  for (size_t cut = 0; cut < count; cut += kTileElements) {
    const std::span piece = in.subspan(cut, std::min(kTileElements, count - cut));
    use(begin + cut, gradient.dtype == Dtype::Bf16 ? widen_tile<bf16_to_f32>(piece, tile)
                                                   : widen_tile<f16_to_f32>(piece, tile));
  }
}

BlockMark mark_from(int32_t largest_magnitude) {
  return {static_cast<uint8_t>(largest_magnitude >> 23)};
}

BlockMark mark_of(const Gradient& gradient, const Block& block) {
  int32_t largest = 0;
  for_each_piece(gradient, block.begin, block.count,
                 [&largest](uint64_t, std::span<const float> values) {
                   largest = std::max(largest, largest_magnitude(values));
                 });
  return mark_from(largest);
}

// Adds the block, whether it fits or not.
BlockMark add_block(const Gradient& gradient, const Block& block, float factor,
                    std::span<int32_t> accumulator) {
  int32_t largest = 0;
  for_each_piece(gradient, block.begin, block.count,
                 [&largest, factor, accumulator](uint64_t begin, std::span<const float> values) {
                   largest = std::max(
                       largest,
                       add_quantised(values, factor, accumulator.subspan(begin, values.size())));
                 });
  return mark_from(largest);
}

void take_block_back(const Gradient& gradient, const Block& block, float factor,
                     std::span<int32_t> accumulator) {
  for_each_piece(gradient, block.begin, block.count,
                 [factor, accumulator](uint64_t begin, std::span<const float> values) {
                   take_back_quantised(values, factor, accumulator.subspan(begin, values.size()));
                 });
}

}  // namespace

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Selects among the three kinds of value without a branch, so that loops of it vectorise. Denormals
// go by way of an integer: a denormal float would be lost in flush-to-zero modes.
float f16_to_f32(uint16_t bits) {
  const uint32_t sign = (uint32_t{bits} & 0x8000) << 16;
  const uint32_t exponent = (uint32_t{bits} >> 10) & 0x1f;
  const uint32_t mantissa = uint32_t{bits} & 0x3ff;
  const uint32_t normal = (exponent + 112) << 23 | mantissa << 13;
  const uint32_t not_finite = 0x7f80'0000 | mantissa << 13;
  const uint32_t denormal =
      std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(mantissa)) * 0x1p-24f);
  const uint32_t finite = exponent == 0 ? denormal : normal;
  return std::bit_cast<float>(sign | (exponent == 0x1f ? not_finite : finite));
}

void merge_marks(std::span<BlockMark> into, std::span<const BlockMark> from) {
  CHECK(into.size() == from.size(), into.size(), " ", from.size());
  for (size_t i = 0; i < into.size(); ++i) into[i].merge(from[i]);
}

// --- BucketScales ---

BucketScales::BucketScales(size_t blocks, uint32_t micro_batches) : histories_(blocks) {
  CHECK(micro_batches >= 1 && micro_batches <= kMaxMicroBatches, micro_batches);
  contribution_bits_ = kSumBits - std::bit_width(micro_batches - 1);
  scales_.assign(blocks, static_cast<int8_t>(scale_for({})));
}

// The largest k with |x| * 2^k <= 2^(contribution_bits_ - kHeadroomBits) for all x of the history.
int BucketScales::scale_for(const History& history) const {
  const int exponent = *std::max_element(history.begin(), history.end());
  if (exponent == 0) return kMaxScale;
  return std::min(kMaxScale, contribution_bits_ - kHeadroomBits - (exponent - kExponentBias));
}

bool BucketScales::overflows(size_t block, BlockMark mark) const {
  if (mark.is_zero() || !mark.is_finite()) return false;
  return mark.max_exponent - kExponentBias + scale(block) > contribution_bits_;
}

bool BucketScales::is_flagged(std::span<const BlockMark> marks) const {
  CHECK(marks.size() == blocks(), marks.size(), " ", blocks());
  if (is_measuring()) return true;
  for (size_t i = 0; i < marks.size(); ++i)
    if (overflows(i, marks[i])) return true;
  return false;
}

void BucketScales::apply_commit(std::span<const BlockMark> marks, bool is_flagged) {
  CHECK(marks.size() == blocks(), marks.size(), " ", blocks());
  CHECK(is_flagged || is_measured_);
  is_measured_ = true;
  for (size_t i = 0; i < marks.size(); ++i) {
    if (marks[i].is_zero() || !marks[i].is_finite()) continue;
    History& history = histories_[i];
    // The turn that follows a flagged one enters the same marks again: here only what is new to the
    // history must enter, so that one step takes one place.
    const uint8_t largest = *std::max_element(history.begin(), history.end());
    if (is_flagged && marks[i].max_exponent <= largest) continue;
    std::move_backward(history.begin(), history.end() - 1, history.end());
    history[0] = marks[i].max_exponent;
    scales_[i] = static_cast<int8_t>(scale_for(history));
  }
}

void BucketScales::save(std::span<std::byte> bytes) const {
  CHECK(bytes.size() == size_bytes(), bytes.size(), " ", size_bytes());
  bytes[0] = std::byte{is_measured_};
  if (!histories_.empty())
    std::memcpy(bytes.data() + 1, histories_.data(), blocks() * sizeof(History));
}

Status BucketScales::load(std::span<const std::byte> bytes) {
  if (bytes.size() != size_bytes())
    return Failure{ErrorCode::Corrupt,
                   str("scales of ", bytes.size(), " bytes instead of ", size_bytes())};
  const bool has_bad_flag = bytes[0] > std::byte{1};
  const bool has_bad_exponent =
      std::find(bytes.begin() + 1, bytes.end(), std::byte{BlockMark::kNotFinite}) != bytes.end();
  if (has_bad_flag || has_bad_exponent)
    return Failure{ErrorCode::Corrupt, "scales with a value that no commit can leave"};
  is_measured_ = bytes[0] == std::byte{1};
  for (size_t i = 0; i < blocks(); ++i) {
    std::memcpy(histories_[i].data(), bytes.data() + 1 + i * kHistory, kHistory);
    scales_[i] = static_cast<int8_t>(scale_for(histories_[i]));
  }
  return {};
}

// --- Contributions ---

void accumulate_exact(const BucketLayout& layout, const BucketScales& scales,
                      const Gradient& gradient, std::span<int32_t> accumulator,
                      std::span<BlockMark> marks) {
  CHECK(gradient.elements == layout.elements && accumulator.size() == layout.elements);
  CHECK(marks.size() == layout.blocks.size() && scales.blocks() == layout.blocks.size());
  for (size_t i = 0; i < layout.blocks.size(); ++i) {
    const Block& block = layout.blocks[i];
    if (scales.is_measuring()) {
      marks[i].merge(mark_of(gradient, block));
      continue;
    }
    const float factor = power_of_two(scales.scale(i));
    const BlockMark mark = add_block(gradient, block, factor, accumulator);
    marks[i].merge(mark);
    if (!mark.is_finite() || scales.overflows(i, mark))
      take_block_back(gradient, block, factor, accumulator);
  }
}

void accumulate_fast(const Gradient& gradient, std::span<float> accumulator) {
  CHECK(gradient.elements == accumulator.size());
  for_each_piece(gradient, 0, gradient.elements,
                 [accumulator](uint64_t begin, std::span<const float> values) {
                   add_f32(accumulator.subspan(begin, values.size()), values);
                 });
}

// --- Reduction ---

PACELINE_VECTORISE void add_i32(std::span<int32_t> dst, std::span<const int32_t> src) {
  CHECK(dst.size() == src.size(), dst.size(), " ", src.size());
  int32_t* __restrict out = dst.data();
  const int32_t* __restrict in = src.data();
  for (size_t i = 0; i < dst.size(); ++i)
    out[i] = static_cast<int32_t>(static_cast<uint32_t>(out[i]) + static_cast<uint32_t>(in[i]));
}

PACELINE_VECTORISE void add_f32(std::span<float> dst, std::span<const float> src) {
  CHECK(dst.size() == src.size(), dst.size(), " ", src.size());
  float* __restrict out = dst.data();
  const float* __restrict in = src.data();
  for (size_t i = 0; i < dst.size(); ++i) out[i] += in[i];
}

void to_float(const BucketLayout& layout, const BucketScales& scales,
              std::span<const BlockMark> marks, std::span<const int32_t> sum,
              std::span<float> out) {
  CHECK(sum.size() == layout.elements && out.size() == layout.elements);
  CHECK(marks.size() == layout.blocks.size() && scales.blocks() == layout.blocks.size());
  for (size_t i = 0; i < layout.blocks.size(); ++i) {
    const Block& block = layout.blocks[i];
    const std::span<float> values = out.subspan(block.begin, block.count);
    if (!marks[i].is_finite()) {
      std::fill(values.begin(), values.end(), std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    scale_sums(sum.subspan(block.begin, block.count), power_of_two(-scales.scale(i)), values);
  }
}

}  // namespace paceline::collective
