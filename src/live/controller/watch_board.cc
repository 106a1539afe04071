#include "live/controller/watch_board.h"

#include <variant>

namespace paceline::controller {

void WatchBoard::note(const JobEvent& event) {
  if (const auto* started = std::get_if<JobStarted>(&event)) {
    started_ = *started;
  } else if (const auto* placed = std::get_if<RankPlaced>(&event)) {
    placed_.insert_or_assign(placed->rank.slot, *placed);
  } else if (const auto* changed = std::get_if<IncidentChanged>(&event)) {
    incidents_.insert_or_assign(changed->incident.id, *changed);
    if (incidents_.size() > kMaxIncidents) incidents_.erase(incidents_.begin());
  } else if (const auto* progress = std::get_if<JobProgress>(&event)) {
    progress_ = *progress;
  } else if (const auto* goodput = std::get_if<Goodput>(&event)) {
    goodput_ = *goodput;
  } else if (const auto* ended = std::get_if<JobEnded>(&event)) {
    ended_ = *ended;
  }
}

std::vector<JobEvent> WatchBoard::what_is() const {
  std::vector<JobEvent> events;
  if (started_) events.emplace_back(*started_);
  for (const auto& [slot, placed] : placed_) events.emplace_back(placed);
  for (const auto& [id, changed] : incidents_) events.emplace_back(changed);
  if (progress_) events.emplace_back(*progress_);
  if (goodput_) events.emplace_back(*goodput_);
  if (ended_) events.emplace_back(*ended_);
  return events;
}

}  // namespace paceline::controller
