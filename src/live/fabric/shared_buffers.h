// SharedBuffers: memory of a rank's arena, given out and taken back. Peers read such a buffer where
// it lies, so that an operation on it moves less.
//
// Lists what is free in the memory of the rank alone: no other process touches it. First fit, in
// units of a line; freed neighbours are joined.
#pragma once

#include <cstddef>
#include <map>

#include "base/result.h"
#include "live/fabric/region.h"

namespace paceline::fabric {

class SharedBuffers {
 public:
  // The region outlives it. One per rank.
  SharedBuffers(const Region& region, uint32_t self);

  // Aligned to a line; zero when first used, else whatever was left in it.
  Result<void*> allocate(size_t size_bytes);
  // REQUIRES: from allocate(), not released yet.
  void release(void* buffer);

 private:
  std::byte* base_;
  size_t arena_bytes_;
  std::map<size_t, size_t> free_;  // size by offset
  std::map<size_t, size_t> used_;
};

}  // namespace paceline::fabric
