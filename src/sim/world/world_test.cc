// Goal: control, agent and rank cores together finish a job through each kind of fault, and lose
// nothing. Method: one scripted fault per test, in virtual time.
#include "sim/world/world.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

namespace paceline::sim {
namespace {

constexpr Duration kLimit = Duration::seconds(120);

Model small_model() {
  Model model;
  model.hosts = 4;
  model.steps = 200;
  return model;
}

void expect_completed(const Outcome& outcome, const Model& model) {
  ASSERT_FALSE(outcome.violation) << *outcome.violation;
  ASSERT_TRUE(outcome.is_finished) << "committed " << outcome.committed << " of " << model.steps;
  ASSERT_TRUE(outcome.ended);
  EXPECT_EQ(outcome.ended->verdict, Verdict::Completed) << outcome.ended->reason;
  EXPECT_EQ(outcome.committed, Turn(model.steps));
}

TEST(World, NoFault_Completes) {
  const Model model = small_model();
  World world(model);
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  EXPECT_TRUE(outcome.incidents.empty());
}

TEST(World, SameModel_SameDigest) {
  const Model model = small_model();
  World a(model), b(model);
  EXPECT_EQ(a.run(kLimit).digest, b.run(kLimit).digest);
}

TEST(World, KilledRank_IsReplacedAndNothingIsLost) {
  const Model model = small_model();
  World world(model);
  world.queue().after(Duration::milliseconds(1500), [&] { world.kill_rank(SlotId(2)); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 1u);
  EXPECT_EQ(outcome.incidents[0].kind, IncidentKind::Crash);
  ASSERT_TRUE(outcome.incidents[0].recovered);
  EXPECT_LT(*outcome.incidents[0].recovered - outcome.incidents[0].detected,
            Duration::milliseconds(100));
}

TEST(World, LostHost_IsFoundSwappedAndComesBack) {
  Model model = small_model();
  model.spare_hosts = 1;
  model.ranks_per_host = 2;
  model.steps = 1500;
  World world(model);
  world.queue().after(Duration::milliseconds(1500),
                      [&] { world.lose_host(1, Duration::seconds(10)); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 1u);
  EXPECT_EQ(outcome.incidents[0].kind, IncidentKind::HostLost);
  EXPECT_EQ(outcome.incidents[0].action, ActionKind::SwapSpare);
}

TEST(World, KilledAgent_CostsItsRanksOnly) {
  const Model model = small_model();
  World world(model);
  world.queue().after(Duration::milliseconds(1500), [&] { world.kill_agent(3); });
  expect_completed(world.run(kLimit), model);
}

TEST(World, KilledController_IsNotNoticedByTheRanks) {
  const Model model = small_model();
  World world(model);
  world.queue().after(Duration::milliseconds(1500), [&] { world.kill_controller(); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  EXPECT_TRUE(outcome.incidents.empty());
}

TEST(World, RankKilledWhileControllerIsDown_IsRepairedOnItsReturn) {
  const Model model = small_model();
  World world(model);
  world.queue().after(Duration::milliseconds(1500), [&] {
    world.kill_controller();
    world.kill_rank(SlotId(1));
  });
  expect_completed(world.run(kLimit), model);
}

// The journal names the next process of a slot while a Prepare still waits for the one before.
TEST(World, ControllerKilledBetweenRestartAndDecision_LearnsThatTheOldProcessHasEnded) {
  for (int64_t after_us = 0; after_us < 8000; after_us += 250) {
    const Model model = small_model();
    World world(model);
    world.queue().after(Duration::milliseconds(1500), [&] { world.kill_rank(SlotId(1)); });
    world.queue().after(Duration::milliseconds(1500) + Duration::microseconds(after_us),
                        [&] { world.kill_controller(); });
    const Outcome outcome = world.run(kLimit);
    expect_completed(outcome, model);
    ASSERT_EQ(outcome.incidents.size(), 1u) << "the controller was killed after " << after_us;
    EXPECT_TRUE(outcome.incidents[0].recovered) << "the controller was killed after " << after_us;
  }
}

TEST(World, LostConnection_FormsTheSameMembersAgain) {
  const Model model = small_model();
  World world(model);
  world.queue().after(Duration::milliseconds(1500),
                      [&] { world.lose_connection(SlotId(0), SlotId(1)); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  EXPECT_TRUE(outcome.incidents.empty());
}

// A path that is back by the next commit is no reason to leave anybody out, however often it goes.
TEST(World, ConnectionLostAgainAfterACommit_LeavesNobodyOut) {
  const Model model = small_model();
  World world(model);
  for (const int64_t at_ms : {1000, 1500, 2000})
    world.queue().after(Duration::milliseconds(at_ms),
                        [&] { world.lose_connection(SlotId(0), SlotId(1)); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  EXPECT_TRUE(outcome.incidents.empty());
}

TEST(World, PathThatStaysCut_LeavesOneHostOutAndTriesEverMoreSeldom) {
  Model model = small_model();
  model.steps = 4000;
  World world(model);
  world.queue().after(Duration::milliseconds(1500), [&] { world.cut_path(1, 2); });
  const Outcome outcome = world.run(Duration::seconds(600));
  expect_completed(outcome, model);
  ASSERT_GE(outcome.incidents.size(), 2u) << "it is tried again";
  std::optional<Instant> before;
  Duration pause = Duration::seconds(9);
  for (const Incident& incident : outcome.incidents) {
    EXPECT_EQ(incident.kind, IncidentKind::DeadPath);
    EXPECT_EQ(incident.host, HostId(3)) << "always the same one";
    EXPECT_EQ(incident.action, ActionKind::Shrink);
    EXPECT_TRUE(incident.recovered);
    if (before) {
      EXPECT_GT(incident.detected - *before, pause);
      pause = pause * 2;
    }
    before = incident.detected;
  }
}

// Whatever the journal says at that moment, and whether its processes had ended by then or not.
TEST(World, ControllerKilledWhileAHostIsLeftOut_ItStaysOutAndEverLonger) {
  for (const int64_t after_ms : {0, 1, 3, 10, 30, 300, 3000, 9000, 11'000, 12'000}) {
    Model model = small_model();
    model.steps = 2000;
    World world(model);
    bool is_kill_due = true;
    world.set_observer([&](Instant, const JobEvent& event) {
      const auto* changed = std::get_if<IncidentChanged>(&event);
      if (changed == nullptr || changed->incident.kind != IncidentKind::DeadPath) return;
      if (std::exchange(is_kill_due, false))
        world.queue().after(Duration::milliseconds(after_ms), [&] { world.kill_controller(); });
    });
    world.queue().after(Duration::milliseconds(1500), [&] { world.cut_path(1, 2); });
    const Outcome outcome = world.run(Duration::seconds(600));
    expect_completed(outcome, model);
    ASSERT_GE(outcome.incidents.size(), 2u) << "killed after " << after_ms << " ms";
    std::optional<Instant> before;
    Duration pause = Duration::seconds(9);
    for (const Incident& incident : outcome.incidents) {
      EXPECT_EQ(incident.kind, IncidentKind::DeadPath) << "killed after " << after_ms << " ms";
      EXPECT_EQ(incident.host, HostId(3)) << "killed after " << after_ms << " ms";
      EXPECT_TRUE(incident.recovered) << "killed after " << after_ms << " ms";
      if (before) {
        EXPECT_GT(incident.detected - *before, pause) << "killed after " << after_ms << " ms";
        pause = pause * 2;
      }
      before = incident.detected;
    }
  }
}

TEST(World, PathThatFallsSilent_IsFoundDeadAsWell) {
  const Model model = small_model();
  World world(model);
  world.queue().after(Duration::milliseconds(1500),
                      [&] { world.cut_path(1, 2, World::Cut::Silent); });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 1u);
  EXPECT_EQ(outcome.incidents[0].kind, IncidentKind::DeadPath);
  // 0.3 s and 2 s of silence, an epoch, 2 s until its connections are given up, another epoch.
  EXPECT_LT(outcome.incidents[0].detected, Instant() + Duration::seconds(7));
}

TEST(World, PathThatIsMended_GetsItsHostBack) {
  Model model = small_model();
  model.steps = 2000;
  World world(model);
  uint32_t members = 0;
  world.set_observer([&](Instant, const JobEvent& event) {
    if (const auto* progress = std::get_if<JobProgress>(&event)) members = progress->members;
  });
  world.queue().after(Duration::milliseconds(1500), [&] { world.cut_path(0, 3); });
  world.queue().after(Duration::seconds(5), [&] {
    EXPECT_EQ(members, 3u);
    world.mend_path(0, 3);
  });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  EXPECT_EQ(outcome.incidents.size(), 1u);
  EXPECT_EQ(members, 4u);
}

TEST(World, HostCutFromTwoOthers_IsTheOneLeftOut) {
  const Model model = small_model();
  World world(model);
  world.queue().after(Duration::milliseconds(1500), [&] {
    world.cut_path(1, 2);
    world.cut_path(0, 1);
  });
  const Outcome outcome = world.run(kLimit);
  expect_completed(outcome, model);
  ASSERT_EQ(outcome.incidents.size(), 1u);
  EXPECT_EQ(outcome.incidents[0].host, HostId(2));
}

TEST(World, RedoneMicroBatches_AreThoseThatTheVictimHadBegun) {
  for (int64_t at_ms = 1500; at_ms < 1540; at_ms += 3) {
    const Model model = small_model();
    World world(model);
    uint32_t begun = 0;
    world.queue().after(Duration::milliseconds(at_ms), [&] {
      begun = world.begun_by(SlotId(2));
      world.kill_rank(SlotId(2));
    });
    const Outcome outcome = world.run(kLimit);
    expect_completed(outcome, model);
    ASSERT_EQ(outcome.incidents.size(), 1u);
    EXPECT_LE(begun, 4u) << "its share";
    EXPECT_EQ(outcome.incidents[0].micro_batches_redone, begun) << "killed at " << at_ms << " ms";
  }
}

TEST(World, Stop_EndsAtOneStepWithExit75) {
  const Model model = small_model();
  World world(model);
  world.queue().after(Duration::milliseconds(1500), [&] { world.stop_job(); });
  const Outcome outcome = world.run(kLimit);
  ASSERT_FALSE(outcome.violation) << *outcome.violation;
  ASSERT_TRUE(outcome.is_finished && outcome.ended);
  EXPECT_EQ(outcome.ended->verdict, Verdict::Stopped);
  EXPECT_EQ(outcome.ended->exit_code, 75);
  EXPECT_GT(outcome.committed, Turn(1));
  EXPECT_LT(outcome.committed, Turn(model.steps));
}

}  // namespace
}  // namespace paceline::sim
