#include "core/recovery/choice.h"

#include <algorithm>

#include "base/check.h"
#include "base/str.h"

namespace paceline::recovery {
namespace {

int64_t milliseconds_of(Duration rank_time) { return rank_time.in_milliseconds(); }

}  // namespace

size_t choose(const std::vector<Alternative>& alternatives) {
  CHECK(!alternatives.empty());
  const auto cheapest = std::min_element(
      alternatives.begin(), alternatives.end(),
      [](const Alternative& a, const Alternative& b) { return a.cost_rank_ms < b.cost_rank_ms; });
  return static_cast<size_t>(cheapest - alternatives.begin());
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
  const Duration restart = q.restart;
  const bool is_short = q.can_restart && q.step > Duration();
  const int64_t horizon_steps =
      is_short ? restart.in_nanoseconds() / q.step.in_nanoseconds() + 1 : kHorizonSteps;
  const Duration slower = std::max(Duration(), q.shrunk_step - q.step);
  const uint32_t survivors = q.ranks > q.lost ? q.ranks - q.lost : 0;
  std::vector<Alternative> all;
  if (q.standing_by >= q.lost && q.lost > 0)
    all.push_back({ActionKind::SwapSpare, milliseconds_of(redo),
                   str(counted(q.standing_by, "hot spare"), " on call; ",
                       counted(q.micro_batches_redone, "micro-batch"), " of ", q.micro_batch,
                       " to compute again")});
  if (survivors > 0) {
    const Duration missing = q.step * (horizon_steps * q.lost);
    all.push_back({ActionKind::Shrink,
                   milliseconds_of(redo + missing + slower * (horizon_steps * survivors)),
                   str(counted(survivors, "rank"), " with ", q.shrunk_step, " a step instead of ",
                       q.step, " for ", counted(static_cast<uint64_t>(horizon_steps), "step"), "; ",
                       counted(q.micro_batches_redone, "micro-batch"), " again")});
  }
  if (q.can_restart) {
    all.push_back({ActionKind::Wait, milliseconds_of(redo + restart * q.ranks),
                   str("all stand still for ", restart, " until the lost are back")});
    all.push_back({ActionKind::RestartInPlace,
                   milliseconds_of(q.step * q.ranks + restart * q.ranks),
                   str("all ranks anew: ", restart, " and the running step")});
  }
  all.push_back(
      {ActionKind::Stop,
       milliseconds_of(q.step * (q.ranks * kHorizonSteps)) + milliseconds_of(restart * q.ranks),
       str("stopping costs at least ", kHorizonSteps, " steps of all ranks")});
  return all;
}

}  // namespace paceline::recovery
