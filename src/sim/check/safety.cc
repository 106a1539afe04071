#include "sim/check/safety.h"

#include <algorithm>

#include "base/str.h"

namespace paceline::sim {
namespace {

constexpr uint64_t kRememberedTurns = 1000;

}  // namespace

void Safety::committed(RankId rank, Turn turn, EpochNumber sums_of, bool holds_all) {
  digest_.add(rank.slot.value()).add(turn.value()).add(sums_of.value());
  if (!holds_all) violate(str("S2 ", rank, " commits turn ", turn, " with an incomplete sum"));
  const auto next = next_.find(rank);
  if (next != next_.end() && next->second != turn)
    violate(str("S5 ", rank, " commits turn ", turn, " and was at ", next->second));
  next_[rank] = turn.next();
  const auto [known, is_new] = sums_of_.emplace(turn, sums_of);
  if (!is_new && known->second != sums_of)
    violate(str("S1 turn ", turn, " is committed with the sums of epochs ", known->second, " and ",
                sums_of, " (", rank, ")"));
  newest_ = std::max(newest_, turn.next());
  if (turn.value() > kRememberedTurns)
    sums_of_.erase(sums_of_.begin(), sums_of_.lower_bound(Turn(turn.value() - kRememberedTurns)));
}

}  // namespace paceline::sim
