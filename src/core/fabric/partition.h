// Partition: a message cut into runs of elements, one after the other.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"

namespace paceline::fabric {

// `parts` runs whose lengths differ by one granule at most; all but the end of the message are
// whole granules. A part may be empty.
struct Partition {
  uint64_t elements = 0;
  uint32_t parts = 1;
  uint64_t granule = 1;  // elements

  uint64_t begin(uint32_t part) const {
    CHECK(part <= parts && parts >= 1 && granule >= 1, part, " of ", parts);
    const uint64_t granules = (elements + granule - 1) / granule;
    const uint64_t whole = granules / parts * part;
    const uint64_t rest = granules % parts * part / parts;  // no product of two large numbers
    return std::min(elements, (whole + rest) * granule);
  }
  uint64_t count(uint32_t part) const { return begin(part + 1) - begin(part); }
};

}  // namespace paceline::fabric
