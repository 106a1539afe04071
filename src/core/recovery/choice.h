// What to do about a fault: the alternative of the least expected loss, in rank-milliseconds, from
// what this run has measured. Every alternative that can be carried out is priced, with the numbers
// behind it.
//
// Pure; integers only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/model/incident.h"

namespace paceline::recovery {

// How long a choice about pace is reckoned to matter. Nobody knows how long a rank stays slow;
// reported means are minutes, and the choice is made again whenever what is measured changes.
inline constexpr int64_t kHorizonSteps = 200;

// Index of the cheapest; the earlier of equals, so that doing less comes first. REQUIRES: not
// empty.
size_t choose(const std::vector<Alternative>& alternatives);

// Why the chosen one, and what the others have to be said for them; but for those that are only
// priced to be complete.
std::string reason_of(const std::vector<Alternative>& alternatives, const Alternative& chosen);

// --- A rank that is slow ---

struct PaceQuestion {
  uint32_t ranks = 0;   // that work
  Duration now;         // time until the slowest rank is done: as the work is divided now,
  Duration ideal;       //   if all ranks were alike,
  Duration rebalanced;  //   with the best division for the measured costs,
  std::optional<Duration> swapped;   //   and with a spare in the place of the slow ranks
  int64_t least_gain_permille = 10;  // of a step: gains below are within the error
  Duration overhead;                 // of a step: what is not computing
  Duration repair;                   // what a later loss costs more when no spare is left
};
std::vector<Alternative> price_pace(const PaceQuestion& question);

// --- A rank that is lost ---

struct LossQuestion {
  uint32_t ranks = 0;        // that are to work
  uint32_t lost = 0;         // of them
  uint32_t standing_by = 0;  // hot spares that could work at once
  uint32_t cold_spares = 0;  // ranks that idle hosts could start
  uint32_t micro_batches_redone = 0;
  Duration micro_batch;      // cost of one
  Duration launch;           // of a process until it could take the state
  Duration heal;             // from then until it works
  uint64_t state_bytes = 0;  // what the heal moves; 0: not known
  Duration step;
  Duration shrunk_step;  // with the survivors alone
  // When the lost can be started again where they were; none: that host is gone, and nobody knows
  // for how long. It is reckoned to be away for `absence`.
  std::optional<Duration> restart_after;
  Duration absence;
};
// A cold spare starts as the lost would in their own place, so it is taken where they cannot be
// started yet. Equal costs leave it idle.
std::vector<Alternative> price_loss(const LossQuestion& question);

}  // namespace paceline::recovery
