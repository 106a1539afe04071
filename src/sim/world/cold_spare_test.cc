// Goal: a cold spare has no process until one is lost that cannot be started again as soon where it
// was; then it takes the place, and who has lost it is the spare. Method: scripted faults in
// virtual time; what watchers are told says who ran where.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/world/world.h"

namespace paceline::sim {
namespace {

constexpr Duration kLimit = Duration::seconds(120);
constexpr Duration kFaultAt = Duration::milliseconds(1500);
constexpr uint32_t kSpareHost = 4;  // the fifth

// Hosts 0 to 3 have slots 0 to 7, the spare has slots 8 and 9.
Model cold_model() {
  Model model;
  model.hosts = 4;
  model.spare_hosts = 1;
  model.has_cold_spares = true;
  model.ranks_per_host = 2;
  model.steps = 600;
  return model;
}

// What was told of a run.
struct Story {
  struct Placed {
    Instant at;
    RankPlaced what;
  };
  std::vector<Placed> placed;
  std::vector<std::string> notices;
  uint32_t most_members = 0;
  JobProgress last;

  explicit Story(World& world) {
    world.set_observer([this](Instant now, const JobEvent& event) {
      if (const auto* rank = std::get_if<RankPlaced>(&event)) placed.push_back({now, *rank});
      if (const auto* notice = std::get_if<Notice>(&event)) notices.push_back(notice->text);
      if (const auto* progress = std::get_if<JobProgress>(&event)) {
        last = *progress;
        most_members = std::max(most_members, progress->members);
      }
    });
  }
  // Slots that got a process in this time.
  std::set<uint32_t> started(Duration from, Duration to) const {
    std::set<uint32_t> slots;
    for (const auto& [at, what] : placed)
      if (at >= Instant() + from && at < Instant() + to) slots.insert(what.rank.slot.value());
    return slots;
  }
  bool has_notice(const std::string& part) const {
    return std::any_of(notices.begin(), notices.end(), [&](const std::string& text) {
      return text.find(part) != std::string::npos;
    });
  }
};

void expect_completed(const Outcome& outcome, const Model& model) {
  ASSERT_FALSE(outcome.violation) << *outcome.violation;
  ASSERT_TRUE(outcome.is_finished) << "committed " << outcome.committed << " of " << model.steps;
  ASSERT_TRUE(outcome.ended);
  EXPECT_EQ(outcome.ended->verdict, Verdict::Completed) << outcome.ended->reason;
}

using Slots = std::set<uint32_t>;
constexpr Duration kEnd = Duration::seconds(1'000'000);

TEST(ColdSpare, LostHost_ItsRanksStartOnTheSpareWithAllAlternativesPriced) {
  const Model model = cold_model();
  World world(model);
  const Story story(world);
  world.queue().after(kFaultAt, [&] { world.lose_host(1, kEnd); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  EXPECT_EQ(story.started(Duration(), kFaultAt), (Slots{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(story.started(kFaultAt, kEnd), (Slots{8, 9}));
  EXPECT_EQ(story.last.working, 8u);

  ASSERT_EQ(outcome.incidents.size(), 1u);
  const Incident& incident = outcome.incidents[0];
  EXPECT_EQ(incident.kind, IncidentKind::HostLost);
  EXPECT_EQ(incident.action, ActionKind::SwapSpare);
  // What has been measured: 400 ms from order to hello, and nothing healed yet.
  EXPECT_NE(incident.reason.find("cold spare rank 8 on host4, rank 9 on host4 joins them"),
            std::string::npos)
      << incident.reason;
  EXPECT_NE(incident.reason.find("launch 40"), std::string::npos) << incident.reason;
  EXPECT_NE(incident.reason.find("of 64 MB"), std::string::npos) << incident.reason;
  std::map<ActionKind, int64_t> costs;
  for (const Alternative& each : incident.alternatives) costs[each.action] = each.cost_rank_ms;
  ASSERT_TRUE(costs.contains(ActionKind::SwapSpare) && costs.contains(ActionKind::Shrink) &&
              costs.contains(ActionKind::Stop));
  EXPECT_LT(costs[ActionKind::SwapSpare], costs[ActionKind::Shrink]);
  EXPECT_FALSE(costs.contains(ActionKind::RestartInPlace)) << "its host is gone";
}

TEST(ColdSpare, HostThatComesBack_IsTheSpareOfTheNextLoss) {
  const Model model = cold_model();
  World world(model);
  const Story story(world);
  const Duration back = Duration::seconds(4), next = Duration::seconds(6);
  world.queue().after(kFaultAt, [&] { world.lose_host(1, back - kFaultAt); });
  world.queue().after(next, [&] { world.lose_host(kSpareHost, Duration::seconds(2)); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  EXPECT_EQ(story.started(kFaultAt, back), (Slots{8, 9}));
  EXPECT_TRUE(story.has_notice("host1 is back and clean: a cold spare from now on"));
  EXPECT_EQ(story.started(back, next), Slots{}) << "it is not needed";
  EXPECT_EQ(story.started(next, kEnd), (Slots{2, 3}));
  EXPECT_EQ(outcome.incidents.size(), 2u);
  EXPECT_EQ(story.most_members, 8u);
  EXPECT_EQ(story.last.working, 8u);
}

// It would be started again where it was after 10 s; the spare is there before.
TEST(ColdSpare, HostLeftOutForADeadPath_IsReplacedAndDoesNotComeBackBesideTheSpare) {
  Model model = cold_model();
  model.steps = 2000;
  World world(model);
  const Story story(world);
  world.queue().after(kFaultAt, [&] { world.cut_path(1, 2); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  EXPECT_GT(world.queue().now(), Instant() + Duration::seconds(15)) << "longer than the pause";
  EXPECT_EQ(story.started(kFaultAt, kEnd), (Slots{8, 9}));
  EXPECT_EQ(story.most_members, 8u);
  EXPECT_EQ(story.last.working, 8u);
  ASSERT_EQ(outcome.incidents.size(), 1u);
  const Incident& incident = outcome.incidents[0];
  EXPECT_EQ(incident.kind, IncidentKind::DeadPath);
  EXPECT_EQ(incident.action, ActionKind::SwapSpare);
  EXPECT_NE(incident.reason.find("until the lost are back where they were"), std::string::npos)
      << incident.reason;
}

TEST(ColdSpare, SpareThatIsSilent_IsNotTaken) {
  const Model model = cold_model();
  World world(model);
  const Story story(world);
  const Duration back = Duration::seconds(4);
  world.queue().after(Duration::milliseconds(500), [&] { world.lose_host(kSpareHost, kEnd); });
  world.queue().after(kFaultAt, [&] { world.lose_host(1, back - kFaultAt); });
  expect_completed(world.run(kLimit), model);
  EXPECT_EQ(story.started(kFaultAt, back), Slots{});
  EXPECT_EQ(story.started(back, kEnd), (Slots{2, 3}));
  EXPECT_EQ(story.last.working, 8u);
}

// Nobody waits for its ranks and nobody else speaks of them: its agent's silence must do.
TEST(ColdSpare, HostThatVanishesWhileItsRanksHeal_IsLostAndTheNextSpareTaken) {
  Model model = cold_model();
  model.spare_hosts = 2;
  model.heal_time = Duration::seconds(1);
  model.steps = 1500;
  World world(model);
  const Story story(world);
  const Duration vanishes = kFaultAt + Duration::milliseconds(1500);
  world.queue().after(kFaultAt, [&] { world.lose_host(1, kEnd); });
  world.queue().after(vanishes, [&] { world.lose_host(kSpareHost, kEnd); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  EXPECT_EQ(story.started(kFaultAt, vanishes), (Slots{8, 9}));
  EXPECT_EQ(story.started(vanishes, kEnd), (Slots{10, 11}));
  EXPECT_EQ(story.last.working, 8u);
  EXPECT_EQ(story.most_members, 8u);
  ASSERT_EQ(outcome.incidents.size(), 2u);
  const Incident& lost = outcome.incidents[1];
  EXPECT_EQ(lost.kind, IncidentKind::HostLost);
  EXPECT_EQ(lost.host, HostId(kSpareHost + 1));
  EXPECT_TRUE(lost.recovered);
  EXPECT_GE(lost.detected, Instant() + vanishes + Duration::milliseconds(4700));
  EXPECT_LE(lost.detected, Instant() + vanishes + Duration::milliseconds(5500));
}

TEST(ColdSpare, HostThatIsSilentForLessWhileItsRanksHeal_KeepsThem) {
  Model model = cold_model();
  model.spare_hosts = 2;
  model.heal_time = Duration::seconds(1);
  model.steps = 1500;
  World world(model);
  const Story story(world);
  world.queue().after(kFaultAt, [&] { world.lose_host(1, kEnd); });
  world.queue().after(kFaultAt + Duration::milliseconds(1500),
                      [&] { world.lose_host(kSpareHost, Duration::seconds(4)); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  EXPECT_EQ(story.started(kFaultAt, kEnd), (Slots{8, 9}));
  EXPECT_EQ(story.last.working, 8u);
  EXPECT_EQ(outcome.incidents.size(), 1u);
}

TEST(ColdSpare, KilledRank_IsStartedAgainWhereItWas) {
  const Model model = cold_model();
  World world(model);
  const Story story(world);
  world.queue().after(kFaultAt, [&] { world.kill_rank(SlotId(2)); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  EXPECT_EQ(story.started(kFaultAt, kEnd), Slots{2});
  ASSERT_EQ(outcome.incidents.size(), 1u);
  EXPECT_EQ(outcome.incidents[0].action, ActionKind::Shrink) << outcome.incidents[0].reason;
  EXPECT_TRUE(std::any_of(
      outcome.incidents[0].alternatives.begin(), outcome.incidents[0].alternatives.end(),
      [](const Alternative& each) { return each.action == ActionKind::SwapSpare; }));
}

// Its next start would be put off for a second: longer than the spare needs for nothing.
TEST(ColdSpare, RankKilledAgainWithoutProgress_IsReplacedAtOnce) {
  Model model = cold_model();
  model.micro_batch = Duration::seconds(1);
  model.steps = 20;
  World world(model);
  const Story story(world);
  const Duration first = Duration::seconds(5), second = Duration::milliseconds(5500);
  world.queue().after(first, [&] { world.kill_rank(SlotId(2)); });
  world.queue().after(second, [&] { world.kill_rank(SlotId(2)); });
  expect_completed(world.run(kLimit), model);
  EXPECT_EQ(story.started(first, second), Slots{2});
  EXPECT_EQ(story.started(second, kEnd), Slots{8});
  EXPECT_TRUE(story.has_notice("cold spare: rank 8 on host4 takes the place of rank 2 on host1"));
  EXPECT_EQ(story.last.working, 8u);
}

TEST(ColdSpare, TwoHostsLostAndOneSpare_TheSecondComesBackIntoItsPlace) {
  const Model model = cold_model();
  World world(model);
  const Story story(world);
  const Duration back = Duration::seconds(5);
  world.queue().after(kFaultAt, [&] { world.lose_host(1, kEnd); });
  world.queue().after(kFaultAt, [&] { world.lose_host(2, back - kFaultAt); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  EXPECT_EQ(
      std::count_if(outcome.incidents.begin(), outcome.incidents.end(),
                    [](const Incident& each) { return each.action == ActionKind::SwapSpare; }),
      1);
  EXPECT_EQ(story.started(kFaultAt, back), (Slots{8, 9}));
  EXPECT_EQ(story.last.working, 8u);
  EXPECT_EQ(story.most_members, 8u);
}

// Whatever the journal says at that moment: one swap, and never more members than the job has.
TEST(ColdSpare, ControllerKilledDuringTheSwap_ItIsDoneOnce) {
  for (int64_t after_ms = 0; after_ms < 1500; after_ms += 20) {
    const Model model = cold_model();
    World world(model);
    const Story story(world);
    world.queue().after(kFaultAt, [&] { world.lose_host(1, Duration::seconds(4)); });
    world.queue().after(kFaultAt + Duration::milliseconds(after_ms),
                        [&] { world.kill_controller(); });
    const Outcome outcome = world.run(kLimit);
    expect_completed(outcome, model);
    EXPECT_EQ(story.started(kFaultAt, kEnd), (Slots{8, 9})) << "killed after " << after_ms << " ms";
    EXPECT_EQ(story.most_members, 8u) << "killed after " << after_ms << " ms";
    EXPECT_EQ(story.last.working, 8u) << "killed after " << after_ms << " ms";
    ASSERT_EQ(outcome.incidents.size(), 1u) << "killed after " << after_ms << " ms";
    EXPECT_EQ(outcome.incidents[0].action, ActionKind::SwapSpare) << "after " << after_ms << " ms";
  }
}

}  // namespace
}  // namespace paceline::sim
