#include "core/recovery/run_history.h"

#include <algorithm>
#include <vector>

#include "core/recovery/robust.h"

namespace paceline::recovery {

void RunHistory::add(RankId rank, const RankSample& sample) {
  longest_compute_ = std::max(longest_compute_, sample.longest_compute);
  longest_outside_ = std::max(longest_outside_, sample.longest_outside);
  Last& last = ranks_[rank];
  const bool is_next = last.count > 0 && sample.turn == last.turn.next();
  const Duration step = sample.committed - last.committed;
  last = {.turn = sample.turn, .committed = sample.committed, .count = last.count + 1};
  // One rank's view of a turn stands for all: they commit within a message of each other.
  if (newest_ && sample.turn <= *newest_) return;
  newest_ = sample.turn;
  ++turns_;
  if (!is_next) return;
  step_ns_.push_back(step.in_nanoseconds());
  if (step_ns_.size() > kSteps) step_ns_.pop_front();
  median_step_ = Duration::nanoseconds(median_of({step_ns_.begin(), step_ns_.end()}));
}

std::optional<Duration> RunHistory::median_of_last(size_t count) const {
  if (count == 0 || step_ns_.size() < count) return std::nullopt;
  return Duration::nanoseconds(
      median_of({step_ns_.end() - static_cast<std::ptrdiff_t>(count), step_ns_.end()}));
}

Duration RunHistory::deviation_of_last(size_t count) const {
  const std::optional<Duration> median = median_of_last(count);
  if (!median) return {};
  return Duration::nanoseconds(
      median_deviation_of({step_ns_.end() - static_cast<std::ptrdiff_t>(count), step_ns_.end()},
                          median->in_nanoseconds()));
}

Duration RunHistory::longest(RankPhase phase) const {
  switch (phase) {
    case RankPhase::Compute:
      return longest_compute_;
    case RankPhase::Outside:
      return longest_outside_;
    default:
      return {};
  }
}

uint64_t RunHistory::turns_of(RankId rank) const {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? 0 : found->second.count;
}

}  // namespace paceline::recovery
