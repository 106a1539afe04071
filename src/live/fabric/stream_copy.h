// A copy whose destination is not read soon: it goes past the caches where the processor can do
// that.
#pragma once

#include <cstddef>

namespace paceline::fabric {

// Saves the read that precedes an ordinary write, a third of the traffic of a copy to memory.
// Whoever is told of it afterwards by a release sees it.
void stream_copy(std::byte* to, const std::byte* from, size_t size_bytes);

// From here on a working set lies in memory rather than in a cache.
size_t last_cache_bytes();

}  // namespace paceline::fabric
