// Statistics that a few wild values cannot move. Integers only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace paceline::recovery {

// The middle value, the upper one of two. REQUIRES: not empty. O(n).
inline int64_t median_of(std::vector<int64_t> values) {
  CHECK(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Median distance from `center`. REQUIRES: not empty.
inline int64_t median_deviation_of(std::vector<int64_t> values, int64_t center) {
  for (int64_t& value : values) value = value > center ? value - center : center - value;
  return median_of(std::move(values));
}

}  // namespace paceline::recovery
