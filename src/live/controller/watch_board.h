// WatchBoard: what a watcher that arrives now must be told to know what is.
//
// Keeps the last word on everything that has one: the job, each slot's process, each incident,
// progress, goodput, the end. What only happens (output, metrics, committed turns, notices) is not
// kept.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "core/model/incident.h"

namespace paceline::controller {

class WatchBoard {
 public:
  // Beyond, the oldest incidents are forgotten.
  static constexpr size_t kMaxIncidents = 10'000;

  void note(const JobEvent& event);

  // In an order in which it could have happened: the job, placements by slot, incidents by number,
  // progress, goodput, the end.
  std::vector<JobEvent> what_is() const;

  bool has_ended() const { return ended_.has_value(); }

 private:
  std::optional<JobStarted> started_;
  std::map<SlotId, RankPlaced> placed_;
  std::map<uint32_t, IncidentChanged> incidents_;
  std::optional<JobProgress> progress_;
  std::optional<Goodput> goodput_;
  std::optional<JobEnded> ended_;
};

}  // namespace paceline::controller
