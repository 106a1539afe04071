#include "live/worker/state_registry.h"

#include <algorithm>
#include <utility>

#include "base/str.h"

#define XXH_INLINE_ALL  // no symbols that could meet those of the program's own copy
#include <xxhash.h>

namespace paceline::worker {

Status StateRegistry::add(std::string name, std::span<std::byte> bytes) {
  if (name.empty() || bytes.data() == nullptr || bytes.empty())
    return Failure{ErrorCode::InvalidArgument, "state needs a name and at least one byte"};
  const bool is_used = std::any_of(parts_.begin(), parts_.end(),
                                   [&](const Part& part) { return part.name == name; });
  if (is_used)
    return Failure{ErrorCode::AlreadyExists, str("state '", name, "' is registered twice")};
  parts_.push_back({std::move(name), bytes});
  return {};
}

uint64_t StateRegistry::size_bytes() const {
  uint64_t size = 0;
  for (const Part& part : parts_) size += part.bytes.size();
  return size;
}

uint64_t StateRegistry::digest(std::span<const std::byte> own_state) const {
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  for (const Part& part : parts_) XXH3_64bits_update(&hash, part.bytes.data(), part.bytes.size());
  XXH3_64bits_update(&hash, own_state.data(), own_state.size());
  return XXH3_64bits_digest(&hash);
}

}  // namespace paceline::worker
