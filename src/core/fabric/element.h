// What collectives move and how they combine it: element types and reductions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"

namespace paceline::fabric {

enum class ElementType : uint8_t { F32, F64, Bf16, F16, I32, I64 };
inline constexpr ElementType kElementTypes[] = {ElementType::F32,  ElementType::F64,
                                                ElementType::Bf16, ElementType::F16,
                                                ElementType::I32,  ElementType::I64};

// Avg is the sum divided by the number of contributions: correctly rounded for floating point,
// towards zero for integers. Sums of integers wrap. Min and Max give NaN if there is a NaN.
enum class Reduction : uint8_t { Sum, Avg, Min, Max };
inline constexpr Reduction kReductions[] = {Reduction::Sum, Reduction::Avg, Reduction::Min,
                                            Reduction::Max};

constexpr size_t size_bytes_of(ElementType type) {
  switch (type) {
    case ElementType::F64:
    case ElementType::I64:
      return 8;
    case ElementType::F32:
    case ElementType::I32:
      return 4;
    case ElementType::Bf16:
    case ElementType::F16:
      return 2;
  }
  CHECK(false, "no such element type");
}

constexpr std::string_view name_of(ElementType type) {
  constexpr std::string_view kNames[] = {"f32", "f64", "bf16", "f16", "i32", "i64"};
  return kNames[static_cast<size_t>(type)];
}

constexpr std::string_view name_of(Reduction reduction) {
  constexpr std::string_view kNames[] = {"sum", "avg", "min", "max"};
  return kNames[static_cast<size_t>(reduction)];
}

}  // namespace paceline::fabric
