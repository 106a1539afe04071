#include "core/recovery/choice.h"

#include <algorithm>

#include "base/check.h"
#include "base/str.h"

namespace paceline::recovery {
namespace {

int64_t milliseconds_of(Duration rank_time) { return rank_time.in_milliseconds(); }

// Rank-time that is not worked while so many ranks are missing: theirs, and what the others' steps
// are longer.
Duration missed(const LossQuestion& q, uint32_t ranks, Duration time) {
  const Duration slower = std::max(Duration(), q.shrunk_step - q.step);
  const int64_t steps = q.step > Duration() ? time.in_nanoseconds() / q.step.in_nanoseconds() : 0;
  return time * ranks + slower * (steps * (q.ranks - q.lost));
}

std::string slower_text(const LossQuestion& q) {
  return str(counted(q.ranks - q.lost, "rank"), " with ", q.shrunk_step, " a step instead of ",
             q.step);
}

// All that are lost are missed until the spares work, who has none until it is back.
Alternative price_cold_swap(const LossQuestion& q) {
  const Duration redo = q.micro_batch * q.micro_batches_redone;
  const uint32_t replaced = std::min(q.cold_spares, q.lost);
  const uint32_t left = q.lost - replaced;
  Duration loss = redo + missed(q, q.lost, q.launch + q.heal);
  if (left > 0) loss += missed(q, left, q.restart_after.value_or(q.absence));
  constexpr uint64_t kMegabyte = 1'000'000;
  const std::string state =
      q.state_bytes < kMegabyte ? "" : str(" of ", q.state_bytes / kMegabyte, " MB");
  return {ActionKind::SwapSpare, milliseconds_of(loss),
          str(replaced, " of ", counted(q.lost, "lost rank"), " on a cold spare: launch ", q.launch,
              ", heal", state, " ", q.heal, "; ", slower_text(q), " for ", q.launch + q.heal)};
}

}  // namespace

size_t choose(const std::vector<Alternative>& alternatives) {
  CHECK(!alternatives.empty());
  const auto cheapest = std::min_element(
      alternatives.begin(), alternatives.end(),
      [](const Alternative& a, const Alternative& b) { return a.cost_rank_ms < b.cost_rank_ms; });
  return static_cast<size_t>(cheapest - alternatives.begin());
}

std::string reason_of(const std::vector<Alternative>& alternatives, const Alternative& chosen) {
  std::string reason = chosen.why;
  for (const Alternative& other : alternatives) {
    const bool is_last_resort =
        other.action == ActionKind::RestartInPlace || other.action == ActionKind::Stop;
    if (other.action != chosen.action && !is_last_resort) reason += "; " + other.why;
  }
  return reason;
}

std::vector<Alternative> price_pace(const PaceQuestion& q) {
  const auto loss = [&](Duration busy) {
    const Duration extra = std::max(Duration(), busy - q.ideal);
    return milliseconds_of(extra * q.ranks * kHorizonSteps);
  };
  std::vector<Alternative> all;
  all.push_back({ActionKind::Wait, loss(q.now),
                 str("the slowest rank computes ", q.now, " a step, ", q.ideal,
                     " if all were alike; over ", kHorizonSteps, " steps")});
  const bool is_gain =
      (q.now - q.rebalanced) * 1000 >= (q.now + q.overhead) * q.least_gain_permille;
  all.push_back({ActionKind::Rebalance, is_gain ? loss(q.rebalanced) : loss(q.now),
                 str("the best division in whole micro-batches takes ", q.rebalanced,
                     is_gain ? "" : ", which is no gain")});
  if (q.swapped)
    all.push_back({ActionKind::SwapSpare, loss(*q.swapped) + milliseconds_of(q.repair * q.ranks),
                   str("with a spare in its place ", *q.swapped,
                       "; a loss without a spare would cost ", q.repair, " more")});
  all.push_back({ActionKind::RestartInPlace, loss(q.now) + milliseconds_of(q.repair),
                 str("a new process on the same host would be as slow, ", q.repair, " later")});
  return all;
}

std::vector<Alternative> price_loss(const LossQuestion& q) {
  const Duration redo = q.micro_batch * q.micro_batches_redone;
  const Duration restart = q.launch + q.heal;
  const Duration shrunk_for = q.restart_after.value_or(q.absence) + restart;
  std::vector<Alternative> all;
  if (q.standing_by >= q.lost && q.lost > 0)
    all.push_back({ActionKind::SwapSpare, milliseconds_of(redo),
                   str(counted(q.standing_by, "hot spare"), " on call; ",
                       counted(q.micro_batches_redone, "micro-batch"), " of ", q.micro_batch,
                       " to compute again")});
  if (q.ranks > q.lost) {
    all.push_back({ActionKind::Shrink, milliseconds_of(redo + missed(q, q.lost, shrunk_for)),
                   str(slower_text(q), " for ", shrunk_for,
                       q.restart_after ? ", until the lost are back where they were"
                                       : ", as long as the host is reckoned to be away",
                       "; ", counted(q.micro_batches_redone, "micro-batch"), " again")});
    if (q.cold_spares > 0 && q.lost > 0) all.push_back(price_cold_swap(q));
  }
  if (q.restart_after) {
    all.push_back(
        {ActionKind::Wait, milliseconds_of(redo + (*q.restart_after + restart) * q.ranks),
         str("all stand still for ", *q.restart_after + restart, " until the lost are back")});
    all.push_back({ActionKind::RestartInPlace,
                   milliseconds_of((q.step + *q.restart_after + restart) * q.ranks),
                   str("all ranks anew: ", *q.restart_after + restart, " and the running step")});
  }
  const Duration stopped_for = std::max(q.step * kHorizonSteps, shrunk_for);
  all.push_back({ActionKind::Stop, milliseconds_of((stopped_for + restart) * q.ranks),
                 str("stopping costs all ranks at least ", stopped_for)});
  return all;
}

}  // namespace paceline::recovery
