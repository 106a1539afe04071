#include "live/fabric/shared_buffers.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/str.h"

namespace paceline::fabric {

SharedBuffers::SharedBuffers(const Region& region, uint32_t self)
    : base_(region.arena(self)), arena_bytes_(region.arena_bytes()) {
  if (arena_bytes_ > 0) free_[0] = arena_bytes_;
}

Result<void*> SharedBuffers::allocate(size_t size_bytes) {
  const Failure exhausted{ErrorCode::Exhausted,
                          str("no ", size_bytes, " bytes in one piece in an arena of ",
                              arena_bytes_, "; ask for a larger arena")};
  if (size_bytes > arena_bytes_) return exhausted;
  const size_t lines = std::max<size_t>(1, (size_bytes + kLineBytes - 1) / kLineBytes);
  const size_t size = lines * kLineBytes;
  const auto fits = std::find_if(free_.begin(), free_.end(),
                                 [size](const auto& piece) { return piece.second >= size; });
  if (fits == free_.end()) return exhausted;
  const size_t offset = fits->first;
  const size_t room = fits->second;
  free_.erase(fits);
  if (room > size) free_[offset + size] = room - size;
  used_[offset] = size;
  return static_cast<void*>(base_ + offset);
}

void SharedBuffers::release(void* buffer) {
  const size_t offset = static_cast<size_t>(static_cast<std::byte*>(buffer) - base_);
  const auto used = used_.find(offset);
  CHECK(used != used_.end(), "no buffer at ", offset);
  auto freed = free_.emplace(offset, used->second).first;
  used_.erase(used);
  const auto next = std::next(freed);
  if (next != free_.end() && freed->first + freed->second == next->first) {
    freed->second += next->second;
    free_.erase(next);
  }
  if (freed == free_.begin()) return;
  const auto before = std::prev(freed);
  if (before->first + before->second != freed->first) return;
  before->second += freed->second;
  free_.erase(freed);
}

}  // namespace paceline::fabric
