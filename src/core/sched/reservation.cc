#include "core/sched/reservation.h"

namespace paceline::sched {
namespace {

// Where the job would go if the first `count` of `ends` had ended.
std::optional<Placement> placement_after(const Waiting& waiting, std::span<const ExpectedEnd> ends,
                                         Fleet& fleet, SearchBudget& budget) {
  const Fleet::Mark mark = fleet.mark();
  for (const ExpectedEnd& end : ends)
    for (size_t group = 0; group < end.shape->groups.size(); ++group)
      for (const PodPlace& place : end.placement->groups[group])
        fleet.give_back(place, end.shape->groups[group].shape);
  auto placement = Placer(fleet, budget, waiting.closed).place(waiting.shape);
  fleet.roll_back(mark);
  return placement;
}

}  // namespace

std::optional<Reservation> reserve(const Waiting& waiting, std::span<const ExpectedEnd> ends,
                                   Fleet& fleet, SearchBudget& budget) {
  // What ends earlier only adds room, so the number of ends that is enough is found by halving.
  if (ends.empty()) return std::nullopt;
  size_t too_few = 0, enough = ends.size();
  std::optional<Placement> placement = placement_after(waiting, ends, fleet, budget);
  if (!placement) return std::nullopt;
  while (too_few + 1 < enough) {
    const size_t middle = too_few + (enough - too_few) / 2;
    auto found = placement_after(waiting, ends.first(middle), fleet, budget);
    if (budget.is_spent()) return std::nullopt;
    if (found) {
      enough = middle;
      placement = std::move(found);
    } else {
      too_few = middle;
    }
  }
  return Reservation{
      .job = waiting.job, .time = ends[enough - 1].time, .placement = std::move(*placement)};
}

}  // namespace paceline::sched
