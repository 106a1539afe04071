// Goal: a late watcher is told the last word on everything that has one. Method: events in, list
// out.
#include "live/controller/watch_board.h"

#include <gtest/gtest.h>

#include <string>

namespace paceline::controller {
namespace {

RankPlaced placed(uint32_t slot, uint32_t incarnation) {
  return {.rank = {.slot = SlotId(slot), .incarnation = Incarnation(incarnation)},
          .host = HostId(slot),
          .host_name = "h"};
}

IncidentChanged incident(uint32_t id, const std::string& evidence) {
  IncidentChanged changed;
  changed.incident.id = id;
  changed.incident.evidence = evidence;
  return changed;
}

TEST(WatchBoard, ManyEvents_LastWordOfEachInOrder) {
  WatchBoard board;
  board.note(JobEnded{.verdict = Verdict::Completed, .reason = "end", .step = Step(2)});
  board.note(JobProgress{.committed = Turn(1), .step = Step(1), .epoch = EpochNumber(1)});
  board.note(JobProgress{.committed = Turn(2), .step = Step(2), .epoch = EpochNumber(1)});
  board.note(incident(1, "old"));
  board.note(incident(1, "new"));
  board.note(placed(1, 1));
  board.note(placed(0, 1));
  board.note(placed(1, 2));
  board.note(Notice{.text = "once"});
  board.note(JobStarted{.hosts = 2});

  const std::vector<JobEvent> events = board.what_is();
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(std::get<JobStarted>(events[0]).hosts, 2u);
  EXPECT_EQ(std::get<RankPlaced>(events[1]), placed(0, 1));
  EXPECT_EQ(std::get<RankPlaced>(events[2]), placed(1, 2));
  EXPECT_EQ(std::get<IncidentChanged>(events[3]).incident.evidence, "new");
  EXPECT_EQ(std::get<JobProgress>(events[4]).committed, Turn(2));
  EXPECT_EQ(std::get<JobEnded>(events[5]).reason, "end");
}

TEST(WatchBoard, TooManyIncidents_OldestAreForgotten) {
  WatchBoard board;
  for (uint32_t id = 0; id <= WatchBoard::kMaxIncidents; ++id) board.note(incident(id, ""));
  const std::vector<JobEvent> events = board.what_is();
  ASSERT_EQ(events.size(), WatchBoard::kMaxIncidents);
  EXPECT_EQ(std::get<IncidentChanged>(events[0]).incident.id, 1u);
}

}  // namespace
}  // namespace paceline::controller
