// Goal: the harm of the chosen victims is the least possible, or near it. Method: random small
// clusters (seed printed, and taken back from PACELINE_TEST_SEED) on which every set of victims is
// tried.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "base/rng.h"
#include "core/sched/cluster_for_test.h"
#include "core/sched/eviction.h"

namespace paceline::sched {
namespace {

using namespace test;

constexpr int kInstances = 400;
constexpr uint64_t kMaxVictims = 9;

uint64_t test_seed() {
  const char* text = std::getenv("PACELINE_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 11;
  std::cout << "PACELINE_TEST_SEED=" << seed << "\n";
  return seed;
}

// A cluster on which up to kMaxVictims jobs of one queue run.
Planner random_state(Rng& rng) {
  std::vector<Domains> domains;
  for (int64_t rack = 0; rack < rng.between(1, 3); ++rack)
    domains.push_back({{str("r", rack)}, static_cast<uint32_t>(rng.between(1, 3)), 4});
  Planner planner(topology_of({"rack"}, domains), *QueueTree::make({queue_spec(0)}),
                  {.backfill = Backfill::Pass, .evictions = Evictions::Allowed});
  for (uint64_t id = 1; id <= kMaxVictims; ++id) {
    JobSpec job =
        gang(id, static_cast<uint32_t>(rng.chance_ppm(300'000) ? 2 : 1), rng.between(1, 4));
    job.stop = {.restart = Duration::seconds(rng.between(1, 20)),
                .checkpoint_every = Duration::seconds(60)};
    CHECK(planner.apply(JobSubmitted{job}).has_value());
  }
  SearchBudget plenty(kPlenty);
  planner.plan(minute(0), plenty);
  return planner;
}

JobSpec random_claimant(Rng& rng) {
  JobSpec job = gang(100, static_cast<uint32_t>(rng.between(1, 3)), rng.between(1, 4));
  job.priority = 10;
  if (rng.chance_ppm(400'000)) job.shape.closeness.required = Level(1);
  return job;
}

// The least harm with which the claimant fits, by trying every set; nothing if none does.
std::optional<int64_t> least_harm(const Planner& planner, const JobSpec& claimant) {
  std::vector<const Job*> running;
  for (const auto& [id, job] : planner.jobs())
    if (job.placement) running.push_back(&job);
  std::optional<int64_t> best;
  for (uint32_t set = 0; set < 1u << running.size(); ++set) {
    Fleet fleet = planner.fleet();
    int64_t harm = 0;
    for (size_t i = 0; i < running.size(); ++i) {
      if ((set >> i & 1) == 0) continue;
      harm += harm_of(*running[i], minute(1));
      for (const PodPlace& place : running[i]->placement->groups[0])
        fleet.give_back(place, running[i]->spec.shape.groups[0].shape);
    }
    if (best && harm >= *best) continue;
    SearchBudget plenty(kPlenty);
    if (Placer(fleet, plenty, nullptr).place(claimant.shape)) best = harm;
  }
  return best;
}

TEST(EvictionExact, Harm_IsNearTheOptimum) {
  const uint64_t seed = test_seed();
  Rng rng(seed);
  int judged = 0, exact = 0;
  double sum_of_ratios = 0, worst = 0;
  for (int instance = 0; instance < kInstances; ++instance) {
    Planner planner = random_state(rng);
    const JobSpec claimant = random_claimant(rng);
    CHECK(planner.apply(JobSubmitted{claimant}).has_value());
    const std::optional<int64_t> optimum = least_harm(planner, claimant);
    SearchBudget plenty(kPlenty);
    const Plan plan = planner.plan(minute(1), plenty);
    const bool has_started = planner.jobs().at(JobId(100)).placement.has_value();
    ASSERT_EQ(has_started, optimum.has_value())
        << "instance " << instance << "; PACELINE_TEST_SEED=" << seed;
    if (!optimum || *optimum == 0) continue;
    int64_t harm = 0;
    for (const Eviction& eviction : plan.evictions) harm += eviction.harm_rank_ms;
    ASSERT_GE(harm, *optimum) << "instance " << instance;
    const double ratio = static_cast<double>(harm) / static_cast<double>(*optimum);
    ++judged;
    exact += harm == *optimum ? 1 : 0;
    sum_of_ratios += ratio;
    worst = std::max(worst, ratio);
  }
  std::cout << judged << " judged, exact " << exact << ", mean " << sum_of_ratios / judged
            << ", worst " << worst << "\n";
  EXPECT_GE(judged, kInstances / 4);
  EXPECT_GE(exact * 100, judged * 90) << "repeat with PACELINE_TEST_SEED=" << seed;
  EXPECT_LE(sum_of_ratios / judged, 1.05);
  EXPECT_LE(worst, 2);
}

}  // namespace
}  // namespace paceline::sched
