// The loops behind reduce(), as templates over a tag, so that each of reduce_*.cc compiles them for
// its own instruction set under names of its own. Nothing else may be instantiated there: an inline
// function shared with other files could be taken from a file whose instructions a processor lacks.
//
// A block is four vectors of 64 bytes of accumulators. The accumulators stay in registers while
// the sources are gone through, and are stored once at the end: that is why a source may be the
// destination. The compiler splits the vectors where registers are narrower.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/fabric/reduce_arguments.h"

// Every function that takes or returns a vector is inlined: how it would be passed does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace paceline::fabric {

namespace loops {

template <class T, int kLanes>
struct VectorOf {
  typedef T type __attribute__((vector_size(sizeof(T) * kLanes)));
};
template <class T, int kLanes>
using Vector = typename VectorOf<T, kLanes>::type;

template <class To, class From>
inline __attribute__((always_inline)) To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

// --- How an element type is stored, and what it is combined as ---

template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static constexpr int kLanes = 64 / sizeof(T);
  using Values = Vector<T, kLanes>;
  static inline __attribute__((always_inline)) void load(Values& values, const void* from) {
    __builtin_memcpy(&values, from, sizeof values);
  }
  static inline __attribute__((always_inline)) void store(void* to, const Values& values) {
    __builtin_memcpy(to, &values, sizeof values);
  }
};

struct Widened {
  using Stored = uint16_t;
  using Value = float;
  static constexpr int kLanes = 16;
  using Values = Vector<float, kLanes>;
  using Words = Vector<uint32_t, kLanes>;
  using Halves = Vector<uint16_t, kLanes>;
  static inline __attribute__((always_inline)) void load_words(Words& words, const void* from) {
    Halves halves;
    __builtin_memcpy(&halves, from, sizeof halves);
    words = __builtin_convertvector(halves, Words);
  }
  static inline __attribute__((always_inline)) void store_words(void* to, const Words& words) {
    const Halves halves = __builtin_convertvector(words, Halves);
    __builtin_memcpy(to, &halves, sizeof halves);
  }
};

struct Bf16 : Widened {
  static inline __attribute__((always_inline)) void load(Values& values, const void* from) {
    Words words;
    load_words(words, from);
    values = bits_as<Values>(words << 16);
  }
  static inline __attribute__((always_inline)) void store(void* to, const Values& values) {
    const Words bits = bits_as<Words>(values);
    const Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const Words nan = (bits >> 16) | 0x40u;
    store_words(to, (bits & 0x7fff'ffffu) > 0x7f80'0000u ? nan : rounded);
  }
};

// Denormal halves go by way of integers and an addition to 0.5, whose last bit is 2^-24, the unit
// of denormal halves: that rounds, and neither side is a denormal float, which a flush-to-zero mode
// would lose.
struct F16 : Widened {
  static inline __attribute__((always_inline)) void load(Values& values, const void* from) {
    Words half;
    load_words(half, from);
    const Words sign = (half & 0x8000u) << 16;
    const Words exponent = (half >> 10) & 0x1fu;
    const Words mantissa = half & 0x3ffu;
    const Words normal = ((exponent + 112u) << 23) | (mantissa << 13);
    const Words not_finite = 0x7f80'0000u | (mantissa << 13);
    using Signed = Vector<int32_t, kLanes>;
    const Values scaled = __builtin_convertvector(bits_as<Signed>(mantissa), Values) * 0x1p-24f;
    const Words finite = exponent == 0u ? bits_as<Words>(scaled) : normal;
    values = bits_as<Values>(sign | (exponent == 0x1fu ? not_finite : finite));
  }
  static inline __attribute__((always_inline)) void store(void* to, const Values& values) {
    const Words bits = bits_as<Words>(values);
    const Words magnitude = bits & 0x7fff'ffffu;
    const Words sign = (bits >> 16) & 0x8000u;
    // A carry out of the mantissa goes on into the exponent, up to infinity, as it must.
    const Words normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    const Words denormal = bits_as<Words>(bits_as<Values>(magnitude) + 0.5f) - 0x3f00'0000u;
    const Words nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    const Words too_large = magnitude > 0x7f80'0000u ? nan : (Words{} + 0x7c00u);
    const Words small_or_normal = magnitude < 0x3880'0000u ? denormal : normal;
    store_words(to, sign | (magnitude >= 0x4780'0000u ? too_large : small_or_normal));
  }
};

// --- How values are combined ---

template <class Format, Reduction kReduction>
inline __attribute__((always_inline)) void combine(typename Format::Values& a,
                                                   const typename Format::Values& b) {
  if constexpr (kReduction == Reduction::Min) {
    a = ((b < a) | (b != b)) ? b : a;
  } else if constexpr (kReduction == Reduction::Max) {
    a = ((b > a) | (b != b)) ? b : a;
  } else if constexpr (sizeof(typename Format::Value) == 4 &&
                       static_cast<typename Format::Value>(0.5) == 0) {
    using Unsigned = Vector<uint32_t, Format::kLanes>;  // wraps
    a = bits_as<typename Format::Values>(bits_as<Unsigned>(a) + bits_as<Unsigned>(b));
  } else if constexpr (static_cast<typename Format::Value>(0.5) == 0) {
    using Unsigned = Vector<uint64_t, Format::kLanes>;
    a = bits_as<typename Format::Values>(bits_as<Unsigned>(a) + bits_as<Unsigned>(b));
  } else {
    a = a + b;
  }
}

template <class Tag, class Format, Reduction kReduction>
struct Loop {
  static constexpr size_t kUnroll = 4;
  static constexpr size_t kBlock = kUnroll * Format::kLanes;
  static constexpr size_t kStep = Format::kLanes * sizeof(typename Format::Stored);

  // Elements [at, at + kBlock) of the sources, to `destination`.
  static inline __attribute__((always_inline)) void block(const ReduceArguments& call, size_t at,
                                                          char* destination) {
    const size_t offset = at * sizeof(typename Format::Stored);
    typename Format::Values total[kUnroll];
    const char* first = static_cast<const char*>(call.sources[0]) + offset;
    for (size_t u = 0; u < kUnroll; ++u) Format::load(total[u], first + u * kStep);
    for (size_t s = 1; s < call.source_count; ++s) {
      const char* source = static_cast<const char*>(call.sources[s]) + offset;
      for (size_t u = 0; u < kUnroll; ++u) {
        typename Format::Values values;
        Format::load(values, source + u * kStep);
        combine<Format, kReduction>(total[u], values);
      }
    }
    if constexpr (kReduction == Reduction::Avg)
      for (size_t u = 0; u < kUnroll; ++u)
        total[u] = total[u] / static_cast<typename Format::Value>(call.source_count);
    for (size_t u = 0; u < kUnroll; ++u) Format::store(destination + u * kStep, total[u]);
  }

  static void run(const ReduceArguments& call) {
    char* destination = static_cast<char*>(call.destination);
    size_t at = 0;
    for (; at + kBlock <= call.count; at += kBlock)
      block(call, at, destination + at * sizeof(typename Format::Stored));
    if (at < call.count) rest(call, at, destination + at * sizeof(typename Format::Stored));
  }

  // What is less than a block: by way of a padded copy, one source at a time.
  static void rest(const ReduceArguments& call, size_t at, char* destination) {
    const size_t offset = at * sizeof(typename Format::Stored);
    const size_t size_bytes = (call.count - at) * sizeof(typename Format::Stored);
    typename Format::Values total[kUnroll];
    for (size_t s = 0; s < call.source_count; ++s) {
      char padded[kUnroll * kStep] = {};
      __builtin_memcpy(padded, static_cast<const char*>(call.sources[s]) + offset, size_bytes);
      for (size_t u = 0; u < kUnroll; ++u) {
        typename Format::Values values;
        Format::load(values, padded + u * kStep);
        if (s == 0) {
          total[u] = values;
        } else {
          combine<Format, kReduction>(total[u], values);
        }
      }
    }
    char padded[kUnroll * kStep];
    for (size_t u = 0; u < kUnroll; ++u) {
      if constexpr (kReduction == Reduction::Avg)
        total[u] = total[u] / static_cast<typename Format::Value>(call.source_count);
      Format::store(padded + u * kStep, total[u]);
    }
    __builtin_memcpy(destination, padded, size_bytes);
  }
};

template <class Tag, class Format>
void reduce_format(const ReduceArguments& call) {
  switch (call.reduction) {
    case Reduction::Sum:
      return Loop<Tag, Format, Reduction::Sum>::run(call);
    case Reduction::Avg:
      return Loop<Tag, Format, Reduction::Avg>::run(call);
    case Reduction::Min:
      return Loop<Tag, Format, Reduction::Min>::run(call);
    case Reduction::Max:
      return Loop<Tag, Format, Reduction::Max>::run(call);
  }
}

template <class Tag>
void reduce_all(const ReduceArguments& call) {
  switch (call.type) {
    case ElementType::F32:
      return reduce_format<Tag, Plain<float>>(call);
    case ElementType::F64:
      return reduce_format<Tag, Plain<double>>(call);
    case ElementType::Bf16:
      return reduce_format<Tag, Bf16>(call);
    case ElementType::F16:
      return reduce_format<Tag, F16>(call);
    case ElementType::I32:
      return reduce_format<Tag, Plain<int32_t>>(call);
    case ElementType::I64:
      return reduce_format<Tag, Plain<int64_t>>(call);
  }
}

}  // namespace loops

}  // namespace paceline::fabric
