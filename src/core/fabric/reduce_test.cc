// Goal: reduce() gives, with every vector set, the bits of a scalar reference.
// Method: random calls (types, reductions, 1 to 9 sources, lengths, alignments, in place or not;
// the seed is printed, and taken back from PACELINE_TEST_SEED), special values mixed in; every
// 16-bit float by itself; and roundings at the edges of the 16-bit formats.
#include "core/fabric/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <vector>

#include "base/rng.h"

namespace paceline::fabric {
namespace {

constexpr VectorSet kSets[] = {VectorSet::Baseline, VectorSet::Avx2, VectorSet::Avx512};

uint64_t test_seed() {
  const char* text = std::getenv("PACELINE_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 20260301;
  std::cout << "PACELINE_TEST_SEED=" << seed << "\n";
  return seed;
}

// --- The reference: one element at a time, by arithmetic instead of bits ---

float widen(ElementType type, uint16_t bits) {
  if (type == ElementType::Bf16) return std::bit_cast<float>(uint32_t{bits} << 16);
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  const int exponent = (bits >> 10) & 0x1f;
  const float mantissa = static_cast<float>(bits & 0x3ff);
  if (exponent == 0x1f)
    return mantissa != 0 ? std::numeric_limits<float>::quiet_NaN()
                         : sign * std::numeric_limits<float>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(mantissa + 1024, exponent - 25);
}

// The nearest of all values of the format, the even one of two. By search: |values| ascend with
// bits.
uint16_t narrow(ElementType type, float x) {
  const uint16_t infinity = type == ElementType::Bf16 ? 0x7f80 : 0x7c00;
  if (std::isnan(x)) return static_cast<uint16_t>(infinity | 1);
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double magnitude = std::abs(static_cast<double>(x));
  // As if infinity were the next value after the largest finite one, which is what IEEE 754 asks.
  const auto value = [&](uint16_t bits) {
    if (bits < infinity) return static_cast<double>(widen(type, bits));
    return 2 * static_cast<double>(widen(type, static_cast<uint16_t>(infinity - 1))) -
           static_cast<double>(widen(type, static_cast<uint16_t>(infinity - 2)));
  };
  uint16_t low = 0;
  uint16_t high = infinity;
  if (magnitude >= value(high)) return static_cast<uint16_t>(sign | infinity);
  while (high - low > 1) {
    const uint16_t middle = static_cast<uint16_t>((low + high) / 2);
    (value(middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - value(low);
  const double above = value(high) - magnitude;
  const bool is_up = above < below || (above == below && (low & 1) != 0);
  return static_cast<uint16_t>(sign | (is_up ? high : low));
}

template <class T>
T combined(Reduction reduction, T a, T b) {
  if (reduction == Reduction::Min || reduction == Reduction::Max) {
    if (a != a) return a;
    if (b != b) return b;
    return reduction == Reduction::Min ? (b < a ? b : a) : (b > a ? b : a);
  }
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

template <class T>
T reduced(Reduction reduction, const std::vector<T>& values) {
  T total = values[0];
  for (size_t i = 1; i < values.size(); ++i) total = combined(reduction, total, values[i]);
  return reduction == Reduction::Avg ? total / static_cast<T>(values.size()) : total;
}

template <class T>
void expected_element(Reduction reduction, const std::vector<const std::byte*>& at, std::byte* to) {
  std::vector<T> values(at.size());
  for (size_t i = 0; i < at.size(); ++i) std::memcpy(&values[i], at[i], sizeof(T));
  const T result = reduced(reduction, values);
  std::memcpy(to, &result, sizeof(T));
}

void expected_half(ElementType type, Reduction reduction, const std::vector<const std::byte*>& at,
                   std::byte* to) {
  std::vector<float> values(at.size());
  for (size_t i = 0; i < at.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, at[i], sizeof bits);
    values[i] = widen(type, bits);
  }
  const uint16_t result = narrow(type, reduced(reduction, values));
  std::memcpy(to, &result, sizeof result);
}

void expected_of(ElementType type, Reduction reduction, const std::vector<const std::byte*>& at,
                 std::byte* to) {
  switch (type) {
    case ElementType::F32:
      return expected_element<float>(reduction, at, to);
    case ElementType::F64:
      return expected_element<double>(reduction, at, to);
    case ElementType::I32:
      return expected_element<int32_t>(reduction, at, to);
    case ElementType::I64:
      return expected_element<int64_t>(reduction, at, to);
    case ElementType::Bf16:
    case ElementType::F16:
      return expected_half(type, reduction, at, to);
  }
}

bool is_nan(ElementType type, const std::byte* at) {
  if (type == ElementType::F32) {
    float x = 0;
    std::memcpy(&x, at, sizeof x);
    return std::isnan(x);
  }
  if (type == ElementType::F64) {
    double x = 0;
    std::memcpy(&x, at, sizeof x);
    return std::isnan(x);
  }
  if (type == ElementType::I32 || type == ElementType::I64) return false;
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return std::isnan(widen(type, bits));
}

// Which NaN it is, is not promised.
bool is_same(ElementType type, const std::byte* a, const std::byte* b) {
  if (is_nan(type, a) || is_nan(type, b)) return is_nan(type, a) && is_nan(type, b);
  return std::memcmp(a, b, size_bytes_of(type)) == 0;
}

// Any bits are a value; most are made small enough that sums are not all infinite.
void fill(ElementType type, Rng& rng, std::byte* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint64_t bits = rng.next();
    if (!rng.chance_ppm(50'000)) {
      const double x = rng.uniform() * 2000 - 1000;
      if (type == ElementType::F32) bits = std::bit_cast<uint32_t>(static_cast<float>(x));
      if (type == ElementType::F64) bits = std::bit_cast<uint64_t>(x);
      if (type == ElementType::Bf16 || type == ElementType::F16)
        bits = narrow(type, static_cast<float>(x));
    }
    std::memcpy(to + i * size_bytes_of(type), &bits, size_bytes_of(type));
  }
}

struct Case {
  ElementType type;
  Reduction reduction;
  size_t count;
  bool is_in_place;
  std::vector<std::vector<std::byte>> storage;  // with the source at `offset`
  std::vector<size_t> offset;
};

Case random_case(Rng& rng) {
  Case made{kElementTypes[rng.below(6)],
            kReductions[rng.below(4)],
            rng.below(700),
            rng.chance_ppm(500'000),
            {},
            {}};
  const size_t sources = 1 + rng.below(9);
  for (size_t s = 0; s < sources; ++s) {
    const size_t offset = rng.below(64);
    made.offset.push_back(offset);
    made.storage.emplace_back(offset + made.count * size_bytes_of(made.type));
    fill(made.type, rng, made.storage.back().data() + offset, made.count);
  }
  return made;
}

void expect_reference(Case test, VectorSet set, Rng& rng) {
  const size_t size = size_bytes_of(test.type);
  std::vector<std::byte> expected(test.count * size);
  for (size_t i = 0; i < test.count; ++i) {
    std::vector<const std::byte*> at;
    for (size_t s = 0; s < test.storage.size(); ++s)
      at.push_back(test.storage[s].data() + test.offset[s] + i * size);
    expected_of(test.type, test.reduction, at, expected.data() + i * size);
  }
  std::vector<const void*> sources;
  for (size_t s = 0; s < test.storage.size(); ++s)
    sources.push_back(test.storage[s].data() + test.offset[s]);
  std::vector<std::byte> apart(test.count * size);
  const size_t victim = rng.below(test.storage.size());
  std::byte* destination =
      test.is_in_place ? test.storage[victim].data() + test.offset[victim] : apart.data();
  reduce({.type = test.type,
          .reduction = test.reduction,
          .sources = sources,
          .destination = destination,
          .count = test.count},
         set);
  for (size_t i = 0; i < test.count; ++i)
    ASSERT_TRUE(is_same(test.type, destination + i * size, expected.data() + i * size))
        << name_of(test.type) << " " << name_of(test.reduction) << " element " << i << " of "
        << test.count << ", " << sources.size() << " sources, in place " << test.is_in_place
        << ", vector set " << static_cast<int>(set);
}

TEST(Reduce, RandomCalls_EqualTheScalarReference) {
  Rng rng(test_seed());
  for (int i = 0; i < 3000 && !testing::Test::HasFatalFailure(); ++i) {
    const Case test = random_case(rng);
    for (const VectorSet set : kSets)
      if (is_supported(set)) expect_reference(test, set, rng);
  }
}

TEST(Reduce, EveryHalf_SurvivesAReductionOfOne) {
  for (const ElementType type : {ElementType::Bf16, ElementType::F16}) {
    std::vector<uint16_t> all(65536);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
    for (const VectorSet set : kSets) {
      if (!is_supported(set)) continue;
      std::vector<uint16_t> out(all.size());
      const void* source = all.data();
      reduce({.type = type, .sources = {&source, 1}, .destination = out.data(), .count = 65536},
             set);
      for (size_t i = 0; i < all.size(); ++i) {
        if (std::isnan(widen(type, all[i]))) {
          ASSERT_TRUE(std::isnan(widen(type, out[i]))) << name_of(type) << " " << i;
        } else {
          ASSERT_EQ(out[i], all[i]) << name_of(type);
        }
      }
    }
  }
}

// Sums of two halves hit ties, carries into the exponent, overflow and denormals.
TEST(Reduce, HalvesAtEveryMagnitude_RoundToNearestEven) {
  Rng rng(test_seed());
  for (const ElementType type : {ElementType::Bf16, ElementType::F16}) {
    std::vector<uint16_t> a(20'000);
    std::vector<uint16_t> b(a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = static_cast<uint16_t>(rng.next());
      // Near in magnitude, so that the sum has few bits too many.
      b[i] = static_cast<uint16_t>(a[i] + rng.below(4096) - 2048);
    }
    const void* sources[] = {a.data(), b.data()};
    for (const VectorSet set : kSets) {
      if (!is_supported(set)) continue;
      std::vector<uint16_t> out(a.size());
      reduce({.type = type, .sources = sources, .destination = out.data(), .count = a.size()}, set);
      for (size_t i = 0; i < a.size(); ++i) {
        const uint16_t expected = narrow(type, widen(type, a[i]) + widen(type, b[i]));
        if (std::isnan(widen(type, expected))) continue;
        ASSERT_EQ(out[i], expected) << name_of(type) << " " << a[i] << " + " << b[i];
      }
    }
  }
}

}  // namespace
}  // namespace paceline::fabric
