// Sleeping on a word of shared memory until somebody wakes its sleepers.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace paceline::fabric {

// Sleeps if the word still has this value; until woken, for `limit` at most, or for no reason.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t value, Duration limit);
void futex_wake_all(const std::atomic<uint32_t>& word);

}  // namespace paceline::fabric
