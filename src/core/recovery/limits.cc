#include "core/recovery/limits.h"

#include <algorithm>

namespace paceline::recovery {
namespace {

// A verdict is due max(5 steps, 1 s) after the stop. What lies between this limit and that: a beat
// (50 ms), a window, a judgement and its confirmation.
constexpr int64_t kStoppedSteps = 4;
constexpr Duration kStoppedLeast = Duration::milliseconds(600);

// Steps that take 20 times as long as usual belong to healthy runs.
constexpr int64_t kStaySteps = 20;
constexpr Duration kStayLeast = Duration::seconds(2);
// A stay of exactly the limit is healthy too; views are as old as a window.
constexpr Duration kStayMargin = Duration::milliseconds(250);
constexpr Duration kWarmUpLeast = Duration::seconds(10);
constexpr Duration kFirstCommitLeast = Duration::seconds(60);
constexpr Duration kCollectiveLeast = Duration::seconds(10);

}  // namespace

Duration stopped_limit(const RunHistory& history) {
  if (history.turns() == 0) return kFirstCommitLeast;
  return std::max(history.median_step().value_or(Duration()) * kStoppedSteps, kStoppedLeast);
}

Duration stay_limit(const RunHistory& history, RankPhase phase, RankId rank) {
  if (history.turns() == 0) return kFirstCommitLeast;
  Duration limit = std::max(kStayLeast, history.longest(phase) * 3 / 2);
  limit = std::max(limit, history.median_step().value_or(Duration()) * kStaySteps);
  if (history.turns_of(rank) < kWarmUpTurns) limit = std::max(limit, kWarmUpLeast);
  return limit + kStayMargin;
}

Duration collective_limit(const RunHistory& history) {
  if (history.turns() == 0) return kFirstCommitLeast;
  return std::max(history.median_step().value_or(Duration()) * kStaySteps, kCollectiveLeast);
}

}  // namespace paceline::recovery
