#include "core/recovery/limits.h"

#include <algorithm>

namespace paceline::recovery {
namespace {

// A verdict is due max(5 steps, 1 s) after the stop. What lies between this limit and that: a beat
// (50 ms), a window, a judgement and its confirmation.
constexpr int64_t kStoppedSteps = 4;
constexpr Duration kStoppedLeast = Duration::milliseconds(500);

// As soon; but all others must first have come to the collective, which may take them a step.
constexpr int64_t kRefusedSteps = 2;
constexpr Duration kRefusedLeast = Duration::milliseconds(300);

// Steps that take 20 times as long as usual belong to healthy runs.
constexpr int64_t kStaySteps = 20;
constexpr Duration kStayLeast = Duration::seconds(2);
// A stay of exactly the limit is healthy too; views are as old as a window.
constexpr Duration kStayMargin = Duration::milliseconds(200);
constexpr Duration kWarmUpLeast = Duration::seconds(10);
constexpr Duration kFirstCommitLeast = Duration::seconds(60);
constexpr Duration kCollectiveLeast = Duration::seconds(10);
// Nobody waits for a joiner, and it computes for the first time in its life.
constexpr int64_t kJoinerStays = 4;

}  // namespace

Duration stopped_limit(const RunHistory& history) {
  if (history.turns() == 0) return kFirstCommitLeast;
  return std::max(history.median_step().value_or(Duration()) * kStoppedSteps, kStoppedLeast);
}

Duration refused_limit(const RunHistory& history) {
  if (history.turns() == 0) return kFirstCommitLeast;
  return std::max(history.median_step().value_or(Duration()) * kRefusedSteps, kRefusedLeast);
}

Duration stay_limit(const RunHistory& history, RankPhase phase, RankId rank) {
  if (history.turns() == 0) return kFirstCommitLeast;
  Duration limit = std::max(kStayLeast, history.longest(phase) * 3 / 2);
  limit = std::max(limit, history.median_step().value_or(Duration()) * kStaySteps);
  if (limit < kWarmUpLeast && history.turns_of(rank) < kWarmUpTurns) limit = kWarmUpLeast;
  return limit + kStayMargin;
}

Duration joiner_limit(const RunHistory& history) { return collective_limit(history); }

Duration joiner_stay_limit(const RunHistory& history, RankPhase phase) {
  if (history.turns() == 0) return kFirstCommitLeast;
  const RankPhase of_members = phase == RankPhase::Trial ? RankPhase::Compute : phase;
  return std::max(history.longest(of_members) * kJoinerStays, kWarmUpLeast) + kStayMargin;
}

Duration collective_limit(const RunHistory& history) {
  if (history.turns() == 0) return kFirstCommitLeast;
  return std::max(history.median_step().value_or(Duration()) * kStaySteps, kCollectiveLeast);
}

}  // namespace paceline::recovery
