// Goal: ranks that hang or are slow are found in time, named rightly, and dealt with at the least
// loss; healthy ones are left alone. Method: one scripted fault per test, in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "sim/world/world.h"

namespace paceline::sim {
namespace {

constexpr Duration kLimit = Duration::seconds(600);
constexpr Duration kFaultAt = Duration::seconds(5);

Model model_of(uint32_t hosts) {
  Model model;
  model.hosts = hosts;
  model.steps = 600;
  return model;
}

void expect_completed(const Outcome& outcome, const Model& model) {
  ASSERT_FALSE(outcome.violation) << *outcome.violation;
  ASSERT_TRUE(outcome.is_finished) << "committed " << outcome.committed << " of " << model.steps;
  ASSERT_TRUE(outcome.ended);
  EXPECT_EQ(outcome.ended->verdict, Verdict::Completed) << outcome.ended->reason;
}

// --- Corruption ---

TEST(Recovery, CorruptedRank_IsFoundByItsDigestAndReplaced) {
  const Model model = model_of(4);
  World world(model);
  world.queue().after(kFaultAt, [&] { world.corrupt_rank(SlotId(2)); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 1u) << "a copy from a healthy rank ends it";
  const Incident& incident = outcome.incidents[0];
  EXPECT_EQ(incident.kind, IncidentKind::Corruption);
  ASSERT_TRUE(incident.rank);
  EXPECT_EQ(incident.rank->slot, SlotId(2));
  EXPECT_TRUE(incident.recovered);
}

// Of two, nobody knows who is right: neither is ended for it.
TEST(Recovery, CorruptedRankOfTwo_IsReportedAndNobodyIsBlamed) {
  const Model model = model_of(2);
  World world(model);
  world.queue().after(kFaultAt, [&] { world.corrupt_rank(SlotId(1)); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 1u) << "said once";
  const Incident& incident = outcome.incidents[0];
  EXPECT_EQ(incident.kind, IncidentKind::Corruption);
  EXPECT_FALSE(incident.rank);
  EXPECT_NE(incident.evidence.find("no majority"), std::string::npos) << incident.evidence;
}

// --- Hang ---

TEST(Recovery, FrozenRank_IsFoundInASecondAndReplaced) {
  const Model model = model_of(4);
  World world(model);
  world.queue().after(kFaultAt, [&] { world.freeze_rank(SlotId(2)); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 1u);
  const Incident& incident = outcome.incidents[0];
  EXPECT_EQ(incident.kind, IncidentKind::Hang);
  EXPECT_EQ(incident.hang_class, HangClass::Stopped);
  ASSERT_TRUE(incident.rank);
  EXPECT_EQ(incident.rank->slot, SlotId(2));
  EXPECT_LE(incident.detected - (Instant() + kFaultAt), Duration::seconds(1));
  ASSERT_TRUE(incident.recovered);
  EXPECT_LE(*incident.recovered - incident.detected, Duration::milliseconds(200));
  EXPECT_GE(incident.alternatives.size(), 4u);
  EXPECT_FALSE(incident.reason.empty());
}

TEST(Recovery, HungRank_IsFoundInItsLimitAndReplaced) {
  const Model model = model_of(8);
  World world(model);
  world.queue().after(kFaultAt, [&] { world.hang_rank(SlotId(5)); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 1u);
  const Incident& incident = outcome.incidents[0];
  EXPECT_EQ(incident.kind, IncidentKind::Hang);
  EXPECT_EQ(incident.hang_class, HangClass::NeverEntered);
  ASSERT_TRUE(incident.rank);
  EXPECT_EQ(incident.rank->slot, SlotId(5));
  EXPECT_LE(incident.detected - (Instant() + kFaultAt), Duration::milliseconds(2550));
  EXPECT_TRUE(incident.recovered);
}

TEST(Recovery, SkippedContribution_IsMismatchedAndFoundInASecond) {
  const Model model = model_of(8);
  World world(model);
  world.queue().after(kFaultAt, [&] { world.skip_on_rank(SlotId(5)); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 1u);
  const Incident& incident = outcome.incidents[0];
  EXPECT_EQ(incident.kind, IncidentKind::Hang);
  EXPECT_EQ(incident.hang_class, HangClass::Mismatched);
  ASSERT_TRUE(incident.rank);
  EXPECT_EQ(incident.rank->slot, SlotId(5));
  EXPECT_LE(incident.detected - (Instant() + kFaultAt), Duration::milliseconds(700));
  EXPECT_TRUE(incident.recovered);
}

// --- Calm times ---
//
// Agents report less often while all goes as usual. Whatever happens then is found as if they did
// not, at whichever moment between two reports it happens.

struct Found {
  Duration after;
  uint64_t events = 0;  // of the whole run
};

Found found_after(const std::function<void(World&)>& fault, IncidentKind kind, Duration at,
                  Duration quiet_window) {
  Model model = model_of(4);
  model.steps = 300;
  model.quiet_window = quiet_window;
  World world(model);
  world.queue().after(at, [&] { fault(world); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  EXPECT_EQ(outcome.incidents.size(), 1u);
  if (outcome.incidents.size() != 1) return {};
  EXPECT_EQ(outcome.incidents[0].kind, kind);
  return {.after = outcome.incidents[0].detected - (Instant() + at), .events = outcome.events};
}

TEST(Recovery, FaultInCalmTimes_IsFoundAsSoonAsInLivelyOnes) {
  struct Case {
    const char* name;
    std::function<void(World&)> fault;
    IncidentKind kind;
    Duration limit;
  };
  const std::vector<Case> cases = {
      {"killed", [](World& w) { w.kill_rank(SlotId(2)); }, IncidentKind::Crash,
       Duration::milliseconds(5)},
      {"stopped", [](World& w) { w.freeze_rank(SlotId(2)); }, IncidentKind::Hang,
       Duration::milliseconds(700)},
      {"skips", [](World& w) { w.skip_on_rank(SlotId(2)); }, IncidentKind::Hang,
       Duration::milliseconds(500)},
      {"hangs", [](World& w) { w.hang_rank(SlotId(2)); }, IncidentKind::Hang,
       Duration::milliseconds(2400)},
      {"host lost", [](World& w) { w.lose_host(2, Duration::seconds(3)); }, IncidentKind::HostLost,
       Duration::milliseconds(550)}};
  for (const Case& c : cases) {
    for (int64_t offset_ms = 0; offset_ms < 200; offset_ms += 23) {
      const Duration at = kFaultAt + Duration::milliseconds(offset_ms);
      const Found lively = found_after(c.fault, c.kind, at, Model().window);
      const Found calm = found_after(c.fault, c.kind, at, Model().quiet_window);
      EXPECT_LE(calm.after, c.limit) << c.name << " " << offset_ms << " ms later";
      EXPECT_LE(calm.after, lively.after + Duration::milliseconds(60))
          << c.name << " " << offset_ms << " ms later";
      EXPECT_LT(calm.events, lively.events) << "no time was calm";
    }
  }
}

TEST(Recovery, FrozenSpare_IsFoundAndReplaced) {
  Model model = model_of(4);
  model.spare_hosts = 1;
  World world(model);
  world.queue().after(kFaultAt, [&] { world.freeze_rank(SlotId(4)); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 1u);
  EXPECT_EQ(outcome.incidents[0].hang_class, HangClass::Stopped);
}

// Nobody waits for it, and nobody but its agent sees it.
TEST(Recovery, FrozenJoiner_IsFoundAndStartedAgain) {
  Model model = model_of(4);
  model.heal_time = Duration::seconds(2);
  World world(model);
  world.queue().after(kFaultAt, [&] { world.kill_rank(SlotId(2)); });
  world.queue().after(kFaultAt + Duration::seconds(1), [&] { world.freeze_rank(SlotId(2)); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 2u);
  const Incident& hang = outcome.incidents[1];
  EXPECT_EQ(hang.kind, IncidentKind::Hang);
  EXPECT_EQ(hang.hang_class, HangClass::Stopped);
  EXPECT_LE(hang.detected - (Instant() + kFaultAt), Duration::seconds(2));
  EXPECT_TRUE(hang.recovered) << "the next process of its slot is a member";
}

// Nobody waits for it either: its program never comes out of the micro-batch that it is tried with.
TEST(Recovery, JoinerThatHangsInItsTrial_IsFoundAndStartedAgain) {
  Model model = model_of(4);
  model.steps = 1500;
  World world(model);
  world.queue().after(kFaultAt, [&] { world.kill_rank(SlotId(2)); });
  world.queue().after(kFaultAt + Duration::milliseconds(430), [&] { world.hang_rank(SlotId(2)); });
  uint32_t members = 0;
  world.set_observer([&](Instant, const JobEvent& event) {
    if (const auto* progress = std::get_if<JobProgress>(&event)) members = progress->members;
  });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 2u);
  const Incident& hang = outcome.incidents[1];
  EXPECT_EQ(hang.kind, IncidentKind::Hang);
  EXPECT_EQ(hang.rank, RankId(SlotId(2), Incarnation(2)));
  EXPECT_EQ(hang.hang_class, HangClass::NeverEntered);
  EXPECT_NE(hang.evidence.find("has not come out of its trial"), std::string::npos)
      << hang.evidence;
  EXPECT_GE(hang.detected - (Instant() + kFaultAt), Duration::seconds(10));
  EXPECT_LE(hang.detected - (Instant() + kFaultAt), Duration::seconds(12));
  EXPECT_TRUE(hang.recovered) << "the next process of its slot is a member";
  EXPECT_EQ(members, 4u);
}

// At whatever moment of its transfer: a joiner that has lost its donor says so, and is not waited
// for until a limit passes.
TEST(Recovery, JoinerWhoseDonorEnds_IsHealedByAnother) {
  Model model = model_of(4);
  model.steps = 150;
  model.micro_batch = Duration::milliseconds(25);
  for (int64_t after_ms = 400; after_ms < 800; after_ms += 20) {
    World world(model);
    bool has_waited = false;
    world.set_observer([&](Instant, const JobEvent& event) {
      const auto* notice = std::get_if<Notice>(&event);
      has_waited |= notice != nullptr && notice->text.find("have entered it") != std::string::npos;
    });
    world.queue().after(kFaultAt, [&] { world.kill_rank(SlotId(3)); });
    world.queue().after(kFaultAt + Duration::milliseconds(after_ms),
                        [&] { world.kill_rank(SlotId(0)); });  // its first donor
    expect_completed(world.run(kLimit), model);
    EXPECT_FALSE(has_waited) << after_ms << " ms after the first loss";
  }
}

TEST(Recovery, HungRank_InObserveMode_IsToldAndLeftAlone) {
  const Model model = model_of(4);
  World world(model);
  world.set_recovery_mode(RecoveryMode::Observe, "hang");
  world.queue().after(kFaultAt, [&] { world.freeze_rank(SlotId(1)); });
  world.queue().after(kFaultAt + Duration::seconds(20), [&] { world.thaw_rank(SlotId(1)); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 1u);
  const Incident& incident = outcome.incidents[0];
  EXPECT_EQ(incident.kind, IncidentKind::Hang);
  EXPECT_TRUE(incident.was_only_observed);
  ASSERT_TRUE(incident.recovered);
  EXPECT_GE(*incident.recovered, Instant() + kFaultAt + Duration::seconds(20));
}

TEST(Recovery, HungRank_InOffMode_IsNotLookedFor) {
  const Model model = model_of(4);
  World world(model);
  world.set_recovery_mode(RecoveryMode::Off, "hang");
  world.queue().after(kFaultAt, [&] { world.freeze_rank(SlotId(1)); });
  world.queue().after(kFaultAt + Duration::seconds(20), [&] { world.thaw_rank(SlotId(1)); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  EXPECT_TRUE(outcome.incidents.empty());
}

TEST(Recovery, LongSteps_RaiseNoAlarm) {
  Model model = model_of(8);
  model.steps = 20'000;
  model.long_step_ppm = 10'000;
  World world(model);
  const Outcome outcome = world.run(Duration::seconds(3600));
  expect_completed(outcome, model);
  for (const Incident& incident : outcome.incidents) ADD_FAILURE() << incident.evidence;
}

TEST(Recovery, FrozenAgents_RaiseNoAlarm) {
  Model model = model_of(4);
  model.steps = 2000;
  World world(model);
  for (uint32_t host = 0; host < 4; ++host)
    world.queue().after(kFaultAt, [&, host] { world.freeze_agent(host, Duration::seconds(3)); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  for (const Incident& incident : outcome.incidents) ADD_FAILURE() << incident.evidence;
}

// --- Pace ---

// Watches the time from commit to commit in a stretch of turns.
class Stopwatch {
 public:
  explicit Stopwatch(World& world) {
    world.set_observer([this](Instant now, const JobEvent& event) {
      if (const auto* turn = std::get_if<TurnCommitted>(&event)) {
        committed_[turn->turn] = turn->at;
        (void)now;
      }
    });
  }
  // Mean over [from, until).
  Duration step(uint64_t from, uint64_t until) const {
    const auto at = [this](uint64_t turn) { return committed_.lower_bound(Turn(turn))->second; };
    return (at(until) - at(from)) / static_cast<int64_t>(until - from);
  }
  uint64_t turn_at(Instant when) const {
    for (const auto& [turn, at] : committed_)
      if (at >= when) return turn.value();
    return 0;
  }

 private:
  std::map<Turn, Instant> committed_;
};

Model fine_model() {
  Model model = model_of(8);
  model.micro_batches = 320;
  model.micro_batch = Duration::milliseconds(1);
  model.steps = 1000;
  return model;
}

// 40 each at 1 ms take 40 ms; with a rank at 1.1 ms the integer optimum is 41 ms instead of 44.
TEST(Recovery, SlowRank_IsRelievedToTheIntegerOptimum) {
  const Model model = fine_model();
  World world(model);
  const Stopwatch watch(world);
  world.queue().after(kFaultAt, [&] { world.slow_rank(SlotId(3), 110); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 1u);
  const Incident& incident = outcome.incidents[0];
  EXPECT_EQ(incident.kind, IncidentKind::Straggler);
  EXPECT_EQ(incident.rank->slot, SlotId(3));
  EXPECT_EQ(incident.action, ActionKind::Rebalance) << incident.reason;
  EXPECT_TRUE(incident.recovered);
  const uint64_t fault = watch.turn_at(Instant() + kFaultAt);
  EXPECT_LE(watch.turn_at(incident.detected), fault + 20);
  const Duration healthy = watch.step(fault - 60, fault - 10);
  const Duration slow = watch.step(fault + 2, fault + 9);
  const Duration relieved = watch.step(fault + 50, fault + 500);
  EXPECT_GT(slow - healthy, Duration::milliseconds(3));
  EXPECT_LE(relieved - healthy, Duration::microseconds(1400));
}

TEST(Recovery, SlowRank_OfCoarseWork_IsWaitedFor) {
  Model model = model_of(8);
  model.micro_batches = 16;
  World world(model);
  world.queue().after(kFaultAt, [&] { world.slow_rank(SlotId(3), 110); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 1u);
  const Incident& incident = outcome.incidents[0];
  EXPECT_EQ(incident.kind, IncidentKind::Straggler);
  EXPECT_EQ(incident.action, ActionKind::Wait) << incident.reason;
  const auto rebalance =
      std::find_if(incident.alternatives.begin(), incident.alternatives.end(),
                   [](const Alternative& each) { return each.action == ActionKind::Rebalance; });
  ASSERT_NE(rebalance, incident.alternatives.end());
  EXPECT_FALSE(rebalance->why.empty());
}

// Two micro-batches each: one moved makes another rank as late. A spare in its place costs nothing.
TEST(Recovery, SlowRank_WithASpare_IsSwapped) {
  Model model = model_of(8);
  model.spare_hosts = 1;
  model.micro_batches = 16;
  model.micro_batch = Duration::milliseconds(20);
  World world(model);
  const Stopwatch watch(world);
  world.queue().after(kFaultAt, [&] { world.slow_rank(SlotId(3), 300); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 1u);
  EXPECT_EQ(outcome.incidents[0].action, ActionKind::SwapSpare) << outcome.incidents[0].reason;
  const uint64_t fault = watch.turn_at(Instant() + kFaultAt);
  const Duration healthy = watch.step(fault - 60, fault - 10);
  EXPECT_LE(watch.step(fault + 30, fault + 90) - healthy, Duration::milliseconds(1));
}

TEST(Recovery, SlowRank_InObserveMode_KeepsItsWork) {
  const Model model = fine_model();
  World world(model);
  const Stopwatch watch(world);
  world.set_recovery_mode(RecoveryMode::Observe, "straggler");
  world.queue().after(kFaultAt, [&] { world.slow_rank(SlotId(3), 150); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 1u);
  EXPECT_TRUE(outcome.incidents[0].was_only_observed);
  const uint64_t fault = watch.turn_at(Instant() + kFaultAt);
  const Duration healthy = watch.step(fault - 60, fault - 10);
  EXPECT_GE(watch.step(fault + 50, fault + 100) - healthy, Duration::milliseconds(15));
}

TEST(Recovery, RankBackAtPace_GetsItsWorkBack) {
  const Model model = fine_model();
  World world(model);
  const Stopwatch watch(world);
  world.queue().after(kFaultAt, [&] { world.slow_rank(SlotId(3), 150); });
  const Duration back_at = kFaultAt + Duration::seconds(10);
  world.queue().after(back_at, [&] { world.slow_rank(SlotId(3), 100); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  EXPECT_EQ(outcome.incidents.size(), 1u);
  const uint64_t fault = watch.turn_at(Instant() + kFaultAt);
  const uint64_t back = watch.turn_at(Instant() + back_at);
  const Duration healthy = watch.step(fault - 60, fault - 10);
  const Duration after = watch.step(back + 21, back + 200);
  EXPECT_LE(after - healthy, Duration::microseconds(200));
}

// --- Across a restart of the controller ---

TEST(Recovery, ControllerKilledWhileARankIsSlow_OneIncidentThatEndsWithTheSlowness) {
  Model model = model_of(4);
  model.steps = 800;
  World world(model);
  world.set_recovery_mode(RecoveryMode::Observe, "straggler");
  world.queue().after(kFaultAt, [&] { world.slow_rank(SlotId(1), 200); });
  world.queue().after(kFaultAt + Duration::seconds(6), [&] {
    world.kill_controller();
    world.slow_rank(SlotId(1), 100);
  });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 1u);
  EXPECT_EQ(outcome.incidents[0].kind, IncidentKind::Straggler);
  EXPECT_TRUE(outcome.incidents[0].recovered);
}

TEST(Recovery, ControllerKilledWhileARankStaysSlow_IsNotFoundASecondTime) {
  Model model = model_of(4);
  model.steps = 800;
  World world(model);
  world.queue().after(kFaultAt, [&] { world.slow_rank(SlotId(1), 300); });
  for (const int64_t seconds : {4, 8, 12})
    world.queue().after(kFaultAt + Duration::seconds(seconds), [&] { world.kill_controller(); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  EXPECT_EQ(outcome.incidents.size(), 1u);
}

TEST(Recovery, ControllerKilledAfterTheModeWasSet_ObservesOn) {
  const Model model = model_of(4);
  World world(model);
  world.set_recovery_mode(RecoveryMode::Observe, "hang");
  world.queue().after(kFaultAt - Duration::milliseconds(500), [&] { world.kill_controller(); });
  world.queue().after(kFaultAt, [&] { world.freeze_rank(SlotId(1)); });
  world.queue().after(kFaultAt + Duration::seconds(8), [&] { world.kill_controller(); });
  world.queue().after(kFaultAt + Duration::seconds(20), [&] { world.thaw_rank(SlotId(1)); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 1u);
  EXPECT_TRUE(outcome.incidents[0].was_only_observed);
  ASSERT_TRUE(outcome.incidents[0].recovered);
  EXPECT_GE(*outcome.incidents[0].recovered, Instant() + kFaultAt + Duration::seconds(20));
}

}  // namespace
}  // namespace paceline::sim
