// Goal: the sums of exact mode are the same bits for any order, grouping and assignment, are within
// the proven bound of the true sums, and no turn is flagged twice for the same contributions.
// Method: a scalar reference in double, random contributions of every kind of float (the seed is
// printed, and taken back from PACELINE_TEST_SEED), and the edges by hand.
#include "core/collective/exact.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <numeric>

#include "base/rng.h"
#include "core/model/ids.h"

namespace paceline::collective {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

uint64_t test_seed() {
  const char* text = std::getenv("PACELINE_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 20260103;
  std::cout << "PACELINE_TEST_SEED=" << seed << "\n";
  return seed;
}

BucketLayout layout_of(const std::vector<uint64_t>& tensors) {
  Result<BucketLayout> layout = make_layout(tensors);
  CHECK(layout.has_value());
  return std::move(layout).value();
}

Gradient gradient_of(const std::vector<float>& x) {
  return {.data = x.data(), .elements = x.size(), .dtype = Dtype::F32};
}

std::vector<uint32_t> bits_of(const std::vector<float>& x) {
  std::vector<uint32_t> bits(x.size());
  for (size_t i = 0; i < x.size(); ++i) bits[i] = std::bit_cast<uint32_t>(x[i]);
  return bits;
}

// What one rank has accumulated, and what a reduction of several is.
struct Partial {
  explicit Partial(const BucketLayout& layout)
      : sum(layout.elements), marks(layout.blocks.size()) {}
  std::vector<int32_t> sum;
  std::vector<BlockMark> marks;

  void reduce(const Partial& other) {
    add_i32(sum, other.sum);
    merge_marks(marks, other.marks);
  }
};

Partial sum_in_order(const BucketLayout& layout, const BucketScales& scales,
                     const std::vector<std::vector<float>>& contributions) {
  Partial partial(layout);
  for (const std::vector<float>& x : contributions)
    accumulate_exact(layout, scales, gradient_of(x), partial.sum, partial.marks);
  return partial;
}

// Random numbers that a gradient may be made of, and a few that it had better not be.
class RandomFloats {
 public:
  explicit RandomFloats(uint64_t seed) : rng_(seed) {}
  Rng& rng() { return rng_; }

  std::vector<float> normal(size_t count, float magnitude) {
    std::vector<float> x(count);
    for (float& value : x) value = magnitude * static_cast<float>(2 * rng_.uniform() - 1);
    return x;
  }
  // Any finite float: denormals, -0 and the largest among them.
  float finite() {
    for (;;) {
      uint32_t bits = static_cast<uint32_t>(rng_.next());
      const uint64_t kind = rng_.below(8);
      if (kind == 0) bits &= 0x807f'ffff;  // denormal or zero
      if (kind == 1) bits &= 0x8000'0000;
      const float value = std::bit_cast<float>(bits);
      if (std::isfinite(value)) return value;
    }
  }

 private:
  Rng rng_;
};

// --- Order, grouping, assignment ---

TEST(Exact, AnyOrderGroupingAssignment_SameBits) {
  RandomFloats random(test_seed());
  Rng& rng = random.rng();
  for (int round = 0; round < 30; ++round) {
    const uint32_t v = static_cast<uint32_t>(rng.below(20)) + 1;
    const BucketLayout layout = layout_of({rng.below(30'000) + 1, 7, rng.below(3'000) + 1});
    std::vector<std::vector<float>> contributions;
    for (uint32_t m = 0; m < v; ++m)
      contributions.push_back(
          random.normal(layout.elements, std::ldexp(1.0f, static_cast<int>(rng.between(-30, 3)))));

    BucketScales scales(layout.blocks.size(), v);
    scales.apply_commit(sum_in_order(layout, scales, contributions).marks, true);
    const Partial expected = sum_in_order(layout, scales, contributions);
    ASSERT_FALSE(scales.is_flagged(expected.marks));

    // Shuffle, deal to a random number of ranks, reduce in random order.
    for (size_t i = v - 1; i > 0; --i) std::swap(contributions[i], contributions[rng.below(i + 1)]);
    std::vector<Partial> ranks(rng.below(v) + 1, Partial(layout));
    for (const std::vector<float>& x : contributions) {
      Partial& rank = ranks[rng.below(ranks.size())];
      accumulate_exact(layout, scales, gradient_of(x), rank.sum, rank.marks);
    }
    while (ranks.size() > 1) {
      std::swap(ranks[rng.below(ranks.size())], ranks.back());
      const Partial last = std::move(ranks.back());
      ranks.pop_back();
      ranks[rng.below(ranks.size())].reduce(last);
    }
    ASSERT_EQ(ranks[0].sum, expected.sum);
    ASSERT_EQ(ranks[0].marks, expected.marks);
  }
}

// --- The bound ---

// |out - true sum| <= V * 2^-(k+1), and one rounding of the integer to float.
TEST(Exact, RandomContributions_WithinTheBound) {
  RandomFloats random(test_seed());
  Rng& rng = random.rng();
  for (int round = 0; round < 40; ++round) {
    const uint32_t v = static_cast<uint32_t>(rng.below(round % 4 == 0 ? 300 : 9)) + 1;
    const BucketLayout layout = layout_of({rng.below(2'000) + 1, 3});
    std::vector<std::vector<float>> first, second;
    for (uint32_t m = 0; m < v; ++m) {
      const float magnitude = std::ldexp(1.0f, static_cast<int>(rng.between(-140, 110)));
      first.push_back(random.normal(layout.elements, magnitude));
      // Growth within the headroom of six bits, which is used up.
      second.push_back(first.back());
      for (float& x : second.back()) x *= m % 2 == 0 ? 63.5f : -1.0f;
    }
    BucketScales scales(layout.blocks.size(), v);
    scales.apply_commit(sum_in_order(layout, scales, first).marks, true);
    const Partial partial = sum_in_order(layout, scales, second);
    ASSERT_FALSE(scales.is_flagged(partial.marks));
    std::vector<float> out(layout.elements);
    to_float(layout, scales, partial.marks, partial.sum, out);
    for (size_t b = 0; b < layout.blocks.size(); ++b) {
      const double unit = std::ldexp(1.0, -scales.scale(b));
      for (size_t i = layout.blocks[b].begin; i < layout.blocks[b].begin + layout.blocks[b].count;
           ++i) {
        double sum = 0;
        for (const std::vector<float>& x : second) sum += x[i];
        ASSERT_LE(std::abs(partial.sum[i]), 1 << 30);
        const double integer = partial.sum[i] * unit;
        // The double sum itself rounds: 2^-52 of the magnitudes in it.
        const double slack = v * std::ldexp(unit, 30 - 52);
        ASSERT_LE(std::abs(integer - sum), v * unit / 2 + slack) << "block " << b << " of V=" << v;
        ASSERT_EQ(out[i], static_cast<float>(integer));
      }
    }
  }
}

TEST(Exact, AnyFiniteFloats_MatchTheScalarReference) {
  RandomFloats random(test_seed());
  for (int round = 0; round < 200; ++round) {
    const BucketLayout layout = layout_of({random.rng().below(70) + 1});
    const uint32_t v = static_cast<uint32_t>(random.rng().below(kMaxMicroBatches)) + 1;
    std::vector<float> x(layout.elements);
    for (float& value : x) value = random.finite();
    BucketScales scales(1, v);
    scales.apply_commit(sum_in_order(layout, scales, {x}).marks, true);
    const Partial partial = sum_in_order(layout, scales, {x});
    ASSERT_FALSE(scales.is_flagged(partial.marks));
    for (size_t i = 0; i < x.size(); ++i) {
      const double scaled = std::ldexp(static_cast<double>(x[i]), scales.scale(0));
      ASSERT_EQ(partial.sum[i], static_cast<int32_t>(std::nearbyint(scaled))) << x[i];
    }
  }
}

TEST(Exact, Ties_RoundToEven) {
  const BucketLayout layout = layout_of({8});
  BucketScales scales(1, 1);
  // max|x| just below 2^25 gives k = -1: units of 2.
  std::vector<float> x = {1, 3, 5, 7, -1, -3, -5, 33'554'430};
  scales.apply_commit(sum_in_order(layout, scales, {x}).marks, true);
  ASSERT_EQ(scales.scale(0), -1);
  const std::vector<int32_t> expected = {0, 2, 2, 4, 0, -2, -2, 16'777'215};
  EXPECT_EQ(sum_in_order(layout, scales, {x}).sum, expected);
}

// A process may flush denormals to zero or not; both give the same bits only if they never count.
TEST(Exact, Denormals_AddNothingAtTheFinestScale) {
  const BucketLayout layout = layout_of({2});
  const float denormal = std::bit_cast<float>(0x007f'ffffu);
  BucketScales scales(1, 1);
  scales.apply_commit(std::vector<BlockMark>{{0}}, true);
  ASSERT_EQ(scales.scale(0), kMaxScale);
  const Partial partial = sum_in_order(layout, scales, {{denormal, -denormal}});
  EXPECT_EQ(partial.sum, (std::vector<int32_t>{0, 0}));
  EXPECT_EQ(partial.marks, (std::vector<BlockMark>{{0}}));
  // The smallest sum is a normal float.
  std::vector<float> out(2);
  to_float(layout, scales, partial.marks, std::vector<int32_t>{1, -1}, out);
  EXPECT_TRUE(std::isnormal(out[0]) && std::isnormal(out[1]));
}

TEST(Exact, LargestSums_FitIntoTheirBits) {
  const BucketLayout layout = layout_of({2});
  for (const uint32_t v : {1u, 2u, 3u, 7u, 8u, 9u, 1000u, kMaxMicroBatches}) {
    BucketScales scales(1, v);
    const float small = std::nextafter(1.0f, 0.0f);
    scales.apply_commit(std::vector<BlockMark>{{126}}, true);
    // The largest contribution that is not refused: 2^6 times what was measured.
    const std::vector<float> x = {small * 64, -small * 64};
    Partial partial(layout);
    for (uint32_t m = 0; m < v; ++m)
      accumulate_exact(layout, scales, gradient_of(x), partial.sum, partial.marks);
    ASSERT_FALSE(scales.is_flagged(partial.marks)) << v;
    const int64_t each = std::llrint(std::ldexp(static_cast<double>(x[0]), scales.scale(0)));
    ASSERT_LE(each * v, int64_t{1} << 30);
    EXPECT_EQ(partial.sum[0], each * v);
    EXPECT_EQ(partial.sum[1], -each * v);
    EXPECT_GT(each * 2, (int64_t{1} << 30) / std::bit_ceil(v)) << "a bit of precision is wasted";
  }
}

// --- Measuring, overflow, NaN ---

TEST(Exact, FirstTurn_OnlyMeasures) {
  const BucketLayout layout = layout_of({2, 1});
  BucketScales scales(2, 4);
  EXPECT_TRUE(scales.is_measuring());
  const Partial partial = sum_in_order(layout, scales, {{1.5f, -3, 0}});
  EXPECT_EQ(partial.sum, (std::vector<int32_t>{0, 0, 0}));
  EXPECT_EQ(partial.marks, (std::vector<BlockMark>{{128}, {0}}));
  EXPECT_TRUE(scales.is_flagged(partial.marks));
  scales.apply_commit(partial.marks, true);
  EXPECT_FALSE(scales.is_measuring());
  // 3 < 2^2, and 24 - 2 bits for each of four.
  EXPECT_EQ(scales.scale(0), 20);
}

TEST(Exact, BucketOfZeros_MeasuredOnceNotForEver) {
  const BucketLayout layout = layout_of({4});
  BucketScales scales(1, 2);
  const std::vector<std::vector<float>> zeros = {{0, -0.0f, 0, 0}};
  scales.apply_commit(sum_in_order(layout, scales, zeros).marks, true);
  const Partial partial = sum_in_order(layout, scales, zeros);
  EXPECT_FALSE(scales.is_flagged(partial.marks));
  std::vector<float> out(4, 1);
  to_float(layout, scales, partial.marks, partial.sum, out);
  EXPECT_EQ(bits_of(out), (std::vector<uint32_t>{0, 0, 0, 0}));
}

TEST(Exact, GrowthBeyondTheHeadroom_FlagsOnceThenFits) {
  const BucketLayout layout = layout_of({1, 1});
  BucketScales scales(2, 1);
  scales.apply_commit(sum_in_order(layout, scales, {{1, 1}}).marks, true);

  const std::vector<std::vector<float>> within = {{127, 127}}, beyond = {{128, 1}};
  EXPECT_FALSE(scales.is_flagged(sum_in_order(layout, scales, within).marks));
  const Partial flagged = sum_in_order(layout, scales, beyond);
  EXPECT_TRUE(scales.is_flagged(flagged.marks));
  EXPECT_EQ(flagged.sum[0], 0) << "a contribution that overflows adds nothing";
  scales.apply_commit(flagged.marks, true);
  EXPECT_FALSE(scales.is_flagged(sum_in_order(layout, scales, beyond).marks));
}

// What does not fit is found while it is added: for every kind of misfit and every length, the
// block must end as it was, and the blocks beside it as a scalar sum of them.
TEST(Exact, BlockThatDoesNotFit_LeavesTheAccumulatorAsItWas) {
  RandomFloats random(test_seed());
  Rng& rng = random.rng();
  for (int round = 0; round < 300; ++round) {
    const uint64_t elements = rng.below(round % 10 == 0 ? 40'000 : 70) + 1;
    const BucketLayout layout = layout_of({elements, 5});
    const size_t blocks = layout.blocks.size();
    BucketScales scales(blocks, 4);
    scales.apply_commit(std::vector<BlockMark>(blocks, BlockMark{127}), true);
    const std::vector<float> fits = random.normal(layout.elements, 1);
    const Partial before = sum_in_order(layout, scales, {fits});

    std::vector<float> x = random.normal(layout.elements, 1);
    const size_t bad_block = rng.below(blocks - 1);
    const Block& bad = layout.blocks[bad_block];
    const std::vector<float> misfits = {kNan, -kNan, kInfinity, -kInfinity, 1000, -3e38f};
    for (uint64_t count = rng.below(bad.count) + 1; count > 0; count /= 2)
      x[bad.begin + rng.below(bad.count)] = misfits[rng.below(misfits.size())];
    const Partial after = sum_in_order(layout, scales, {fits, x});

    for (size_t b = 0; b < blocks; ++b) {
      const Block& block = layout.blocks[b];
      uint32_t largest = 0;
      for (uint64_t i = block.begin; i < block.begin + block.count; ++i) {
        largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fff'ffff);
        const double scaled = std::ldexp(static_cast<double>(x[i]), scales.scale(b));
        const int32_t added = b == bad_block ? 0 : static_cast<int32_t>(std::nearbyint(scaled));
        ASSERT_EQ(after.sum[i], before.sum[i] + added) << "round " << round << ", element " << i;
      }
      ASSERT_EQ(after.marks[b].max_exponent,
                std::max<uint32_t>(before.marks[b].max_exponent, largest >> 23));
    }
  }
}

TEST(Exact, WhoeverComputes_OverflowIsTheSame) {
  // Two contributions of which one overflows: on one rank or on two, flagged.
  const BucketLayout layout = layout_of({1});
  BucketScales scales(1, 2);
  scales.apply_commit(std::vector<BlockMark>{{127}}, true);
  const std::vector<float> small = {1}, large = {1000};
  const Partial together = sum_in_order(layout, scales, {small, large});
  Partial apart = sum_in_order(layout, scales, {small});
  apart.reduce(sum_in_order(layout, scales, {large}));
  EXPECT_EQ(together.marks, apart.marks);
  EXPECT_TRUE(scales.is_flagged(together.marks));
}

TEST(Exact, NanOrInfinity_TurnsItsBlockToNanAndLeavesTheHistory) {
  const BucketLayout layout = layout_of({2, 2});
  for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    BucketScales scales(2, 2);
    const std::vector<std::vector<float>> contributions = {{1, 2, 3, 4}, {1, bad, 1, 1}};
    scales.apply_commit(sum_in_order(layout, scales, {contributions[0]}).marks, true);
    const Partial partial = sum_in_order(layout, scales, contributions);
    EXPECT_EQ(partial.marks[0].max_exponent, BlockMark::kNotFinite);
    EXPECT_FALSE(scales.is_flagged(partial.marks));
    std::vector<float> out(4);
    to_float(layout, scales, partial.marks, partial.sum, out);
    EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]));
    EXPECT_EQ(out[2], 4);
    EXPECT_EQ(out[3], 5);
    const int before = scales.scale(0);
    scales.apply_commit(partial.marks, false);
    EXPECT_EQ(scales.scale(0), before);
  }
}

TEST(Exact, NanBesideAnOverflow_DoesNotRepeatForEver) {
  const BucketLayout layout = layout_of({2});
  BucketScales scales(1, 2);
  scales.apply_commit(std::vector<BlockMark>{{127}}, true);
  EXPECT_FALSE(scales.is_flagged(sum_in_order(layout, scales, {{1e30f, 0}, {0, kNan}}).marks));
}

// Liveness: whatever the contributions, a turn that is computed again with the same ones commits.
TEST(Exact, RandomContributions_FlaggedAtMostOnceInARow) {
  RandomFloats random(test_seed());
  Rng& rng = random.rng();
  const BucketLayout layout = layout_of({5, 1, 3});
  BucketScales scales(layout.blocks.size(), 3);
  for (int step = 0; step < 500; ++step) {
    std::vector<float> x(layout.elements);
    for (float& value : x) {
      value = random.finite();
      if (rng.below(40) == 0) value = rng.below(2) == 0 ? kNan : kInfinity;
    }
    Partial partial = sum_in_order(layout, scales, {x});
    if (scales.is_flagged(partial.marks)) {
      scales.apply_commit(partial.marks, true);
      partial = sum_in_order(layout, scales, {x});
      ASSERT_FALSE(scales.is_flagged(partial.marks)) << "step " << step;
    }
    scales.apply_commit(partial.marks, false);
  }
}

// --- Scales ---

TEST(BucketScales, LargeMagnitude_ForgottenAfterItsHistory) {
  BucketScales scales(1, 1);
  scales.apply_commit(std::vector<BlockMark>{{140}}, true);
  const int coarse = scales.scale(0);
  for (size_t i = 0; i + 1 < kHistory; ++i) {
    scales.apply_commit(std::vector<BlockMark>{{120}}, false);
    ASSERT_EQ(scales.scale(0), coarse) << i;
  }
  scales.apply_commit(std::vector<BlockMark>{{120}}, false);
  EXPECT_EQ(scales.scale(0), coarse + 20);
}

TEST(BucketScales, StepsOfZeros_KeepTheHistory) {
  BucketScales scales(1, 1);
  scales.apply_commit(std::vector<BlockMark>{{130}}, true);
  const BucketScales before = scales;
  for (size_t i = 0; i < 2 * kHistory; ++i) scales.apply_commit(std::vector<BlockMark>{{0}}, false);
  EXPECT_EQ(scales, before);
}

TEST(BucketScales, FlaggedForAnotherBucket_EntersOnce) {
  BucketScales scales(1, 1), quiet(1, 1);
  scales.apply_commit(std::vector<BlockMark>{{130}}, true);
  quiet.apply_commit(std::vector<BlockMark>{{130}}, true);
  scales.apply_commit(std::vector<BlockMark>{{129}}, true);
  scales.apply_commit(std::vector<BlockMark>{{129}}, false);
  quiet.apply_commit(std::vector<BlockMark>{{129}}, false);
  EXPECT_EQ(scales, quiet);
}

TEST(BucketScales, SavedAndLoaded_Equal) {
  BucketScales scales(3, 6);
  scales.apply_commit(std::vector<BlockMark>{{100}, {0}, {254}}, true);
  scales.apply_commit(std::vector<BlockMark>{{90}, {255}, {1}}, false);
  std::vector<std::byte> bytes(scales.size_bytes());
  scales.save(bytes);
  BucketScales loaded(3, 6);
  ASSERT_TRUE(loaded.load(bytes).has_value());
  EXPECT_EQ(loaded, scales);
}

TEST(BucketScales, BytesThatNoCommitLeaves_RefusedUnchanged) {
  BucketScales scales(2, 1);
  scales.apply_commit(std::vector<BlockMark>{{100}, {7}}, true);
  const BucketScales before = scales;
  std::vector<std::byte> bytes(scales.size_bytes());
  EXPECT_FALSE(scales.load(std::span(bytes).first(bytes.size() - 1)).has_value());
  bytes[0] = std::byte{2};
  EXPECT_FALSE(scales.load(bytes).has_value());
  bytes[0] = std::byte{1};
  bytes.back() = std::byte{255};
  EXPECT_EQ(scales.load(bytes).error().code, ErrorCode::Corrupt);
  EXPECT_EQ(scales, before);
}

// --- Input formats ---

// Value of sign, exponent and fraction fields, in double.
double value_of(uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double fraction = std::ldexp(bits & ((1u << fraction_bits) - 1), -fraction_bits);
  const double sign = bits >> (exponent_bits + fraction_bits) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction == 0 ? sign * static_cast<double>(kInfinity) : static_cast<double>(kNan);
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, exponent - bias);
}

void expect_same(float found, double expected, uint32_t bits) {
  if (std::isnan(expected)) {
    ASSERT_TRUE(std::isnan(found)) << bits;
  } else {
    ASSERT_EQ(std::bit_cast<uint32_t>(found), std::bit_cast<uint32_t>(static_cast<float>(expected)))
        << bits;
  }
}

TEST(Widening, AllSixteenBitFloats_Exact) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    expect_same(bf16_to_f32(static_cast<uint16_t>(bits)), value_of(bits, 8, 7), bits);
    expect_same(f16_to_f32(static_cast<uint16_t>(bits)), value_of(bits, 5, 10), bits);
  }
}

TEST(Exact, SixteenBitInputs_SameAsTheirFloats) {
  RandomFloats random(test_seed());
  const BucketLayout layout = layout_of({20'000, 1'025});
  for (const Dtype dtype : {Dtype::Bf16, Dtype::F16}) {
    std::vector<uint16_t> narrow(layout.elements);
    std::vector<float> wide(layout.elements);
    for (size_t i = 0; i < narrow.size(); ++i) {
      // Finite in both formats.
      narrow[i] = static_cast<uint16_t>(random.rng().next() & 0xbbff);
      wide[i] = dtype == Dtype::Bf16 ? bf16_to_f32(narrow[i]) : f16_to_f32(narrow[i]);
    }
    const Gradient gradient{.data = narrow.data(), .elements = narrow.size(), .dtype = dtype};
    BucketScales scales(layout.blocks.size(), 2);
    Partial measured(layout), partial(layout);
    accumulate_exact(layout, scales, gradient, measured.sum, measured.marks);
    scales.apply_commit(measured.marks, true);
    accumulate_exact(layout, scales, gradient, partial.sum, partial.marks);
    const Partial expected = sum_in_order(layout, scales, {wide});
    EXPECT_EQ(partial.sum, expected.sum);
    EXPECT_EQ(partial.marks, expected.marks);

    std::vector<float> fast(layout.elements, 0.5f);
    accumulate_fast(gradient, fast);
    for (size_t i = 0; i < fast.size(); ++i) ASSERT_EQ(fast[i], 0.5f + wide[i]);
  }
}

// A contribution in any of the formats, and the numbers that its bits stand for.
struct AnyContribution {
  Dtype dtype = Dtype::F32;
  std::vector<float> wide;
  std::vector<uint16_t> narrow;

  Gradient gradient() const {
    if (dtype == Dtype::F32) return gradient_of(wide);
    return {.data = narrow.data(), .elements = narrow.size(), .dtype = dtype};
  }
  long double value(size_t i) const {
    if (dtype == Dtype::F32) return wide[i];
    return dtype == Dtype::Bf16 ? value_of(narrow[i], 8, 7) : value_of(narrow[i], 5, 10);
  }
};

// Of f32 and bf16: up to 2^exponent in magnitude, with denormals and zeros in between. Of f16: any
// finite bits.
AnyContribution random_contribution(RandomFloats& random, size_t elements, int exponent) {
  Rng& rng = random.rng();
  AnyContribution x;
  x.dtype = static_cast<Dtype>(rng.below(3));
  x.wide = random.normal(elements, std::ldexp(1.0f, exponent));
  for (float& value : x.wide) {
    const uint32_t kept = rng.below(20) == 0 ? 0x807f'ffff : 0xffff'ffff;
    value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) & kept);
  }
  if (x.dtype == Dtype::F32) return x;
  for (const float value : x.wide) {
    uint16_t bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    if (x.dtype == Dtype::F16) do
        bits = static_cast<uint16_t>(rng.next());
      while ((bits & 0x7c00) == 0x7c00);
    x.narrow.push_back(bits);
  }
  return x;
}

// A scale as it is when gradients have grown by up to the six bits of headroom since.
BucketScales scales_before_growth(Rng& rng, uint32_t v, std::vector<BlockMark> marks) {
  for (BlockMark& mark : marks)
    if (!mark.is_zero())
      mark.max_exponent = static_cast<uint8_t>(
          std::max<int64_t>(1, mark.max_exponent - static_cast<int64_t>(rng.below(7))));
  BucketScales scales(marks.size(), v);
  scales.apply_commit(marks, true);
  return scales;
}

// |sum * 2^-k - true sum| <= V * 2^-(k+1), whatever the formats, magnitudes and number of ranks.
TEST(Exact, EveryFormatOverManyRanks_WithinTheBoundOfTheTrueSum) {
  RandomFloats random(test_seed());
  Rng& rng = random.rng();
  for (int round = 0; round < 60; ++round) {
    const bool is_long = round % 20 == 0;  // a tensor of several blocks
    const uint32_t v = static_cast<uint32_t>(rng.below(is_long ? 8 : 400)) + 1;
    const BucketLayout layout = layout_of({rng.below(is_long ? 150'000 : 400) + 1, 3});
    const int exponent = static_cast<int>(rng.between(-149, 120));
    std::vector<AnyContribution> contributions;
    BucketScales measuring(layout.blocks.size(), v);
    Partial measured(layout);
    for (uint32_t m = 0; m < v; ++m) {
      const int smaller = static_cast<int>(rng.below(30));
      contributions.push_back(
          random_contribution(random, layout.elements, std::max(-149, exponent - smaller)));
      accumulate_exact(layout, measuring, contributions.back().gradient(), measured.sum,
                       measured.marks);
    }
    const BucketScales scales = scales_before_growth(rng, v, measured.marks);

    std::vector<Partial> ranks(rng.below(64) + 1, Partial(layout));
    for (const AnyContribution& x : contributions) {
      Partial& rank = ranks[rng.below(ranks.size())];
      accumulate_exact(layout, scales, x.gradient(), rank.sum, rank.marks);
    }
    for (size_t i = 1; i < ranks.size(); ++i) ranks[0].reduce(ranks[i]);
    ASSERT_FALSE(scales.is_flagged(ranks[0].marks));
    std::vector<float> out(layout.elements);
    to_float(layout, scales, ranks[0].marks, ranks[0].sum, out);

    for (size_t b = 0; b < layout.blocks.size(); ++b) {
      const long double unit = std::ldexp(1.0L, -scales.scale(b));
      // The reference rounds too, at 2^-63 of sums that are below 2^30 units.
      const long double bound = v * (unit / 2 + std::ldexp(unit, 30 - 63));
      const size_t end = layout.blocks[b].begin + layout.blocks[b].count;
      for (size_t i = layout.blocks[b].begin; i < end; ++i) {
        long double sum = 0;
        for (const AnyContribution& x : contributions) sum += x.value(i);
        const long double reduced = ranks[0].sum[i] * unit;
        ASSERT_LE(std::abs(reduced - sum), bound)
            << "round " << round << ", element " << i << " of V=" << v;
        ASSERT_EQ(out[i], static_cast<float>(reduced));
      }
    }
  }
}

// --- Reduction ---

TEST(Reduction, Integers_WrapWithoutUndefinedBehaviour) {
  std::vector<int32_t> dst = {INT32_MAX, -5, 7};
  add_i32(dst, std::vector<int32_t>{1, 5, -9});
  EXPECT_EQ(dst, (std::vector<int32_t>{INT32_MIN, 0, -2}));
}

}  // namespace
}  // namespace paceline::collective
