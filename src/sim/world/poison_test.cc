// Goal: poison stops the job at its last commit, or is left out of its step once and for all.
// Method: one poisonous micro-batch per test, in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "sim/world/world.h"

namespace paceline::sim {
namespace {

constexpr Duration kLimit = Duration::seconds(120);
constexpr Skipped kPoison{Step(60), MicroBatch(5)};

Model model_of(bool skips_poison) {
  Model model;
  model.steps = 120;
  model.skips_poison = skips_poison;
  return model;
}

size_t count(const Outcome& outcome, IncidentKind kind) {
  return static_cast<size_t>(
      std::count_if(outcome.incidents.begin(), outcome.incidents.end(),
                    [kind](const Incident& incident) { return incident.kind == kind; }));
}

void expect_skipped_once(const Outcome& outcome, const Model& model) {
  ASSERT_FALSE(outcome.violation) << *outcome.violation;
  ASSERT_TRUE(outcome.ended) << "committed " << outcome.committed << " of " << model.steps;
  EXPECT_EQ(outcome.ended->verdict, Verdict::Completed) << outcome.ended->reason;
  EXPECT_EQ(outcome.committed, Turn(model.steps));
  EXPECT_EQ(outcome.skipped, (std::map<Step, uint32_t>{{kPoison.step, 1}}));
}

TEST(Poison, Stop_EndsTheJobAtTheCommitBefore_AfterTwoRanks) {
  const Model model = model_of(false);
  World world(model);
  world.poison(kPoison);
  const Outcome outcome = world.run(kLimit);
  ASSERT_FALSE(outcome.violation) << *outcome.violation;
  ASSERT_TRUE(outcome.ended);
  EXPECT_EQ(outcome.ended->verdict, Verdict::Failed);
  EXPECT_EQ(outcome.ended->exit_code, 93);
  EXPECT_EQ(outcome.ended->step, kPoison.step);
  EXPECT_EQ(outcome.committed, Turn(kPoison.step.value()));
  EXPECT_EQ(outcome.ended->state_digest, kPoison.step.value()) << "two ranks are left to say it";
  EXPECT_EQ(count(outcome, IncidentKind::Crash), 2u) << "nobody else gets it";
  EXPECT_EQ(count(outcome, IncidentKind::Poison), 1u);
}

TEST(Poison, Skip_GoesOnWithoutIt) {
  const Model model = model_of(true);
  World world(model);
  world.poison(kPoison);
  const Outcome outcome = world.run(kLimit);
  expect_skipped_once(outcome, model);
  EXPECT_EQ(count(outcome, IncidentKind::Crash), 2u) << "nobody else gets it";
}

TEST(Poison, Skip_OfTwoOfOneStep_LeavesBothOut) {
  Model model = model_of(true);
  model.hosts = 6;
  model.micro_batches = 24;
  World world(model);
  world.poison(kPoison);
  world.poison({kPoison.step, MicroBatch(11)});
  const Outcome outcome = world.run(kLimit);
  ASSERT_FALSE(outcome.violation) << *outcome.violation;
  ASSERT_TRUE(outcome.ended);
  EXPECT_EQ(outcome.ended->verdict, Verdict::Completed) << outcome.ended->reason;
  EXPECT_EQ(outcome.skipped, (std::map<Step, uint32_t>{{kPoison.step, 2}}));
}

// The controller dies at every moment between the first end and the commit of the step, and so does
// another rank, whose loss is one more epoch of that step.
TEST(Poison, Skip_IsKeptThroughRestartsOfTheControllerAndLaterEpochs) {
  const Model calm = model_of(true);
  Instant first;
  {
    World world(calm);
    world.poison(kPoison);
    const Outcome outcome = world.run(kLimit);
    for (const Incident& incident : outcome.incidents)
      if (first == Instant()) first = incident.detected;
  }
  ASSERT_GT(first, Instant());
  for (int64_t us = 0; us < 60'000; us += 1'500) {
    SCOPED_TRACE(us);
    World world(calm);
    world.poison(kPoison);
    const Duration at = first - Instant() + Duration::microseconds(us);
    if (us % 2'000 == 0) {
      world.queue().after(at, [&] { world.kill_rank(SlotId(3)); });
    } else {
      world.queue().after(at, [&] { world.kill_controller(); });
    }
    expect_skipped_once(world.run(kLimit), calm);
  }
}

}  // namespace
}  // namespace paceline::sim
