#include "core/sched/reservation.h"

#include <algorithm>

#include "base/check.h"

namespace paceline::sched {
namespace {

void end_in_trial(const ExpectedEnd& end, Fleet& fleet) {
  for (size_t group = 0; group < end.shape->groups.size(); ++group)
    for (const PodPlace& place : end.placement->groups[group])
      fleet.give_back(place, end.shape->groups[group].shape);
}

// Of the ends from the first, so many leave fewer GPUs than the job needs: it cannot fit after
// them.
size_t certainly_too_few(const JobShape& shape, std::span<const ExpectedEnd> ends,
                         const Fleet& fleet) {
  const int64_t needed = shape.total()[kGpu];
  int64_t free = fleet.free_gpus(Topology::cluster());
  size_t count = 0;
  while (count + 1 < ends.size() && free + ends[count].shape->total()[kGpu] < needed)
    free += ends[count++].shape->total()[kGpu];
  return count;
}

}  // namespace

std::optional<Reservation> reserve(const Waiting& waiting, std::span<const ExpectedEnd> ends,
                                   Fleet& fleet, SearchBudget& budget) {
  if (ends.empty()) return std::nullopt;
  // What ends only adds room, so the number of ends that is enough is found by halving. The fleet
  // is kept as after the first `too_few` of them.
  size_t too_few = 0, enough = ends.size() + 1;
  std::optional<Placement> placement;
  const Fleet::Mark start = fleet.mark();
  const auto try_after = [&](size_t count) {
    const Fleet::Mark mark = fleet.mark();
    for (size_t i = too_few; i < count; ++i) end_in_trial(ends[i], fleet);
    auto found = Placer(fleet, budget, waiting.closed).find(waiting.shape);
    if (found) {
      fleet.roll_back(mark);
      enough = count;
      placement = std::move(found);
    } else {
      fleet.commit(mark);
      too_few = count;
    }
  };
  const size_t first = certainly_too_few(waiting.shape, ends, fleet);
  for (size_t i = 0; i < first; ++i) end_in_trial(ends[i], fleet);
  too_few = first;
  for (size_t step = 1; too_few + 1 < enough && too_few < ends.size() && !budget.is_spent();
       step *= 2)
    try_after(placement ? too_few + (enough - too_few) / 2 : std::min(too_few + step, ends.size()));
  fleet.roll_back(start);
  if (!placement || budget.is_spent()) return std::nullopt;
  CHECK(enough >= 1 && enough <= ends.size(), enough);
  return Reservation{
      .job = waiting.job, .time = ends[enough - 1].time, .placement = std::move(*placement)};
}

}  // namespace paceline::sched
