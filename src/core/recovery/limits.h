// How long what may last before it is a hang: rules over RunHistory.
#pragma once

#include "core/recovery/run_history.h"

namespace paceline::recovery {

// A rank that has committed fewer turns than this may still be warming up.
inline constexpr uint64_t kWarmUpTurns = 16;

// A stopped process, from its last beat.
Duration stopped_limit(const RunHistory& history);

// A program whose last call was refused as out of order, while all others wait for its rank.
Duration refused_limit(const RunHistory& history);

// A stay in `phase` while all others wait for `rank`.
Duration stay_limit(const RunHistory& history, RankPhase phase, RankId rank);

// A joiner whose library gives no beat.
Duration joiner_limit(const RunHistory& history);

// A joiner's stay in `phase`: its trial, or the program's own code outside it.
Duration joiner_stay_limit(const RunHistory& history, RankPhase phase);

// All ranks wait in the collective and nobody commits.
Duration collective_limit(const RunHistory& history);

}  // namespace paceline::recovery
