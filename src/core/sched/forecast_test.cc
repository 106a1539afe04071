// Goal: what is said of a job that is not there yet is what then happens, and asking changes
// nothing. Method: small clusters; then random ones, on which the answer is compared with doing it
// (seed printed, and taken back from PACELINE_TEST_SEED).
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "base/rng.h"
#include "core/sched/cluster_for_test.h"

namespace paceline::sched {
namespace {

using namespace test;

uint64_t test_seed() {
  const char* text = std::getenv("PACELINE_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 30;
  std::cout << "PACELINE_TEST_SEED=" << seed << "\n";
  return seed;
}

JobSpec expecting(JobSpec job, int64_t minutes) {
  job.expected = Duration::seconds(60 * minutes);
  return job;
}

Forecast ask(const Bench& bench, const JobSpec& job, Instant now) {
  SearchBudget plenty(kPlenty);
  return *bench.planner.what_if(job, now, plenty);
}

TEST(Forecast, S30_NewJob_IsToldWhyAndWhenAndNothingChanges) {
  Bench bench(topology_of({}, {{{}, 3, 8}}), {queue_spec(0)});
  bench.submit(expecting(gang(1, 1, 8), 10));
  bench.submit(expecting(gang(2, 1, 8), 20));
  bench.plan(minute(0));
  const uint64_t before = bench.planner.hash();

  EXPECT_TRUE(ask(bench, gang(3, 1, 8), minute(1)).placement.has_value());
  const Forecast two = ask(bench, gang(3, 2, 8), minute(1));
  EXPECT_FALSE(two.placement.has_value());
  EXPECT_EQ(two.verdict->text(), "waits: the largest cluster (cluster) holds 1 of 2 pods");
  EXPECT_EQ(two.estimated_start, minute(10));
  EXPECT_EQ(ask(bench, gang(3, 3, 8), minute(1)).estimated_start, minute(20));
  const Forecast four = ask(bench, gang(3, 4, 8), minute(1));
  EXPECT_EQ(four.verdict->answer, Answer::Never);
  EXPECT_FALSE(four.estimated_start.has_value());
  EXPECT_EQ(bench.planner.hash(), before);
  EXPECT_FALSE(bench.planner.jobs().contains(JobId(3)));
}

TEST(Forecast, S30_VictimsThatItWouldTake_AreNamed) {
  Bench bench(topology_of({}, {{{}, 1, 8}}), {queue_spec(0)}, {.evictions = Evictions::Allowed});
  bench.submit(gang(1, 1, 8));
  bench.plan(minute(0));
  JobSpec urgent = gang(2, 1, 8);
  urgent.priority = 5;
  const Forecast forecast = ask(bench, urgent, minute(1));
  ASSERT_EQ(forecast.evictions.size(), 1u);
  EXPECT_EQ(forecast.evictions[0].job, JobId(1));
  EXPECT_EQ(forecast.evictions[0].harm_rank_ms, 8 * 60'000);
  EXPECT_EQ(bench.why(1), "runs");
}

TEST(Forecast, OverrunJob_IsTakenToNeedAsLongAgain) {
  Bench bench(topology_of({}, {{{}, 1, 8}}), {queue_spec(0)});
  bench.submit(expecting(gang(1, 1, 8), 10));
  bench.plan(minute(0));
  bench.submit(gang(2, 1, 8));
  SearchBudget plenty(kPlenty);
  EXPECT_EQ(bench.planner.estimated_start(JobId(2), minute(9), plenty), minute(10));
  EXPECT_EQ(bench.planner.estimated_start(JobId(2), minute(10), plenty), minute(20));
  EXPECT_EQ(bench.planner.estimated_start(JobId(2), minute(25), plenty), minute(40));
}

TEST(Forecast, RandomStates_WhatIsSaidIsWhatHappens) {
  const uint64_t seed = test_seed();
  Rng rng(seed);
  int started = 0, waiting = 0;
  for (int state = 0; state < 300; ++state) {
    Bench bench(topology_of({"rack"}, {{{"r0"}, 3, 8}, {{"r1"}, 2, 8}}),
                {queue_spec(0, 16), queue_spec(1, 16)},
                {.evictions = rng.chance_ppm(500'000) ? Evictions::Allowed : Evictions::None});
    const auto job = [&rng](uint64_t id) {
      JobSpec spec = gang(id, static_cast<uint32_t>(rng.between(1, 3)), rng.between(1, 8),
                          static_cast<uint32_t>(rng.below(2)));
      spec.priority = static_cast<int32_t>(rng.below(2));
      return expecting(spec, rng.between(1, 60));
    };
    for (uint64_t id = 1; id <= 10; ++id) bench.submit(job(id));
    do bench.plan(minute(0));
    while (!bench.last.is_finished);

    const JobSpec asked = job(50);
    const Forecast forecast = ask(bench, asked, minute(1));
    bench.submit(asked);
    bench.plan(minute(1));
    ASSERT_EQ(bench.planner.jobs().at(JobId(50)).placement, forecast.placement)
        << "state " << state;
    ASSERT_EQ(bench.why(50), forecast.verdict ? forecast.verdict->text() : "runs")
        << "state " << state;
    std::vector<Eviction> evictions;
    for (const Eviction& eviction : bench.last.evictions)
      if (eviction.beneficiary == JobId(50)) evictions.push_back(eviction);
    ASSERT_EQ(evictions, forecast.evictions)
        << "state " << state << "; repeat with PACELINE_TEST_SEED=" << seed;
    forecast.placement ? ++started : ++waiting;
  }
  EXPECT_GT(started, 20);
  EXPECT_GT(waiting, 20);
}

}  // namespace
}  // namespace paceline::sched
