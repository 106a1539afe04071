// Exact reduction: sums of gradients whose bits do not depend on order, grouping or assignment.
//
// Floating-point addition is not associative, integer addition is. So each contribution is
// quantised where it is accumulated, q = rint(x * 2^k), ties to even, and q is summed as int32. One
// k per block, taken from the largest |x| that the block has shown in past steps, with 6 bits of
// headroom for growth and ceil(log2 V) bits for the V contributions of a step.
//
// All that is known of the magnitudes of a block is one byte, its *mark*: the exponent of max|x|
// over the contributions of a turn. Marks merge by maximum and travel beside the sums; from the
// merged mark and k every rank finds by itself whether the turn is flagged (some contribution did
// not fit, or nothing was ever measured) and which blocks are NaN. The commit of a turn enters its
// marks in the scales; a flagged turn is then computed again and fits.
//
// Bounds, their proof and the alternatives: docs/design/0004-exact-reduction.md.
// Pure functions over memory of the caller; no allocation but in constructors. Rounding mode: to
// nearest even, the default of every process. Flush-to-zero modes do not change a bit.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "core/collective/layout.h"

namespace paceline::collective {

enum class Dtype : uint8_t { F32, Bf16, F16 };
constexpr size_t size_bytes(Dtype dtype) { return dtype == Dtype::F32 ? 4 : 2; }

// One contribution as the caller has it; aligned to its element size. A view: borrows `data`.
struct Gradient {
  const void* data = nullptr;
  uint64_t elements = 0;
  Dtype dtype = Dtype::F32;
};

float bf16_to_f32(uint16_t bits);
float f16_to_f32(uint16_t bits);

// --- Marks ---

// What a turn has shown of a block: the biased exponent of max|x| as in the bits of a float.
// 0: only zeros and denormals, which add nothing at any k. e: |x| < 2^(e-126). 255: a NaN or an
// infinity was among them.
struct BlockMark {
  static constexpr uint8_t kNotFinite = 255;

  uint8_t max_exponent = 0;

  bool is_zero() const { return max_exponent == 0; }
  bool is_finite() const { return max_exponent != kNotFinite; }
  void merge(BlockMark other) { max_exponent = std::max(max_exponent, other.max_exponent); }
  bool operator==(const BlockMark&) const = default;
};
static_assert(sizeof(BlockMark) == 1, "marks travel as bytes");

// REQUIRES: equal sizes.
void merge_marks(std::span<BlockMark> into, std::span<const BlockMark> from);

// --- Scales ---

inline constexpr size_t kHistory = 16;
inline constexpr int kHeadroomBits = 6;
// Above this, a denormal x could reach half a unit, and 2^-k * q could be denormal: the result
// would depend on whether the process flushes denormals to zero.
inline constexpr int kMaxScale = 125;

// The k of each block of one bucket, and the marks they come from. Registered state: the same bytes
// on every rank after a commit.
class BucketScales {
 public:
  // REQUIRES: 1 <= micro_batches <= kMaxMicroBatches.
  BucketScales(size_t blocks, uint32_t micro_batches);

  size_t blocks() const { return scales_.size(); }
  // Nothing was measured yet: contributions give only marks, and the turn is flagged.
  bool is_measuring() const { return !is_measured_; }
  // k, in [-120, kMaxScale].
  int scale(size_t block) const { return scales_[block]; }
  // A contribution with this mark does not fit in the block's share of 2^30 / V.
  bool overflows(size_t block, BlockMark mark) const;
  // What `marks`, merged over all contributions of the turn, mean for it. A block with NaN never
  // flags: its sum is NaN whatever the scale.
  bool is_flagged(std::span<const BlockMark> marks) const;

  // The turn with these merged marks is committed; `is_flagged` says whether it was so for any
  // bucket. After a flagged commit the same contributions fit.
  // REQUIRES: is_flagged where is_flagged(marks).
  void apply_commit(std::span<const BlockMark> marks, bool is_flagged);

  // --- As bytes: u8 is_measured, then kHistory exponents per block, newest first ---
  size_t size_bytes() const { return 1 + blocks() * kHistory; }
  // REQUIRES: bytes.size() == size_bytes().
  void save(std::span<std::byte> bytes) const;
  // On error nothing is changed.
  Status load(std::span<const std::byte> bytes);

  bool operator==(const BucketScales&) const = default;

 private:
  // Exponents (1..254) of the last commits in which the block was finite and not all zero, newest
  // first; 0 fills what is not there yet. Zeros are left out so that a block that is used only now
  // and then (rows of an embedding) does not have its turn flagged at each use.
  using History = std::array<uint8_t, kHistory>;

  int scale_for(const History& history) const;

  int contribution_bits_;  // |q| <= 2^contribution_bits_ for each contribution
  bool is_measured_ = false;
  std::vector<History> histories_;
  std::vector<int8_t> scales_;  // derived
};

// --- Contributions ---

// Adds the contribution to the accumulators of all blocks, and merges its marks. A block in which
// it overflows or is not finite takes nothing of it; while measuring, none does. REQUIRES: one
// element of `accumulator` per element of `gradient`, one mark per block.
void accumulate_exact(const BucketLayout& layout, const BucketScales& scales,
                      const Gradient& gradient, std::span<int32_t> accumulator,
                      std::span<BlockMark> marks);

// Fast mode: plain additions in float.
void accumulate_fast(const Gradient& gradient, std::span<float> accumulator);

// --- Reduction ---

// dst[i] += src[i]. Integers wrap: what a faulty peer sends is no undefined behaviour here.
// REQUIRES: equal sizes, no overlap.
void add_i32(std::span<int32_t> dst, std::span<const int32_t> src);
void add_f32(std::span<float> dst, std::span<const float> src);

// The sums of a committed turn that was not flagged, as float: rounded once, to nearest. Blocks
// marked as not finite read as NaN.
// REQUIRES: `scales` as they were for the contributions, so before apply_commit; `marks` merged
// over all of them; no overlap.
void to_float(const BucketLayout& layout, const BucketScales& scales,
              std::span<const BlockMark> marks, std::span<const int32_t> sum, std::span<float> out);

}  // namespace paceline::collective
