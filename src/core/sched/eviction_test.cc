// Goal: who yields to whom, and that it ends. Method: the scenarios of users' complaints (S...) on
// small clusters.
#include "core/sched/eviction.h"

#include <gtest/gtest.h>

#include "core/sched/cluster_for_test.h"

namespace paceline::sched {
namespace {

using namespace test;
using Ids = std::vector<uint64_t>;

constexpr Policy kEvicting = {.evictions = Evictions::Allowed};

// Plans until there is nothing more to decide. CHECKs that this comes to an end.
struct Outcome {
  Ids started;
  Ids evicted;
};
Outcome settle(Bench& bench, Instant now = minute(1)) {
  Outcome outcome;
  for (int round = 0;; ++round) {
    CHECK(round < 100, "evictions without end");
    for (const uint64_t id : bench.plan(now)) outcome.started.push_back(id);
    for (const Eviction& eviction : bench.last.evictions)
      outcome.evicted.push_back(eviction.job.value());
    if (bench.last.is_finished) return outcome;
  }
}

size_t running_in(const Bench& bench, uint32_t queue) {
  size_t count = 0;
  for (const auto& [id, job] : bench.planner.jobs())
    count += job.placement && job.spec.queue == QueueId(queue) ? 1 : 0;
  return count;
}

JobSpec with_priority(JobSpec job, int32_t priority) {
  job.priority = priority;
  return job;
}

TEST(Eviction, S15_Reclaim_ReachesTheFairShareAndThenStops) {
  Bench bench(topology_of({}, {{{}, 8, 1}}), {queue_spec(0, 2), queue_spec(1, 2)}, kEvicting);
  for (uint64_t id = 1; id <= 8; ++id) bench.submit(gang(id, 1, 1, 0));
  EXPECT_EQ(settle(bench, minute(0)).started.size(), 8u);
  for (uint64_t id = 11; id <= 18; ++id) bench.submit(gang(id, 1, 1, 1));
  EXPECT_EQ(settle(bench).evicted.size(), 4u);
  EXPECT_EQ(running_in(bench, 0), 4u);
  EXPECT_EQ(running_in(bench, 1), 4u);
  for (int round = 0; round < 100; ++round)
    EXPECT_TRUE(settle(bench, minute(2 + round)).evicted.empty());
}

TEST(Eviction, S16a_TwoQueuesWithRigidJobs_ExchangeOnceAtMost) {
  QueueSpec first = queue_spec(0), second = queue_spec(1);
  first.quota = Resources().with(kCpu, 3000);
  second.quota = Resources().with(kCpu, 5000);
  Bench bench(topology_of({}, {{{}, 1, 0, 8}}), {first, second}, kEvicting);
  const auto cpu_job = [](uint64_t id, int64_t cpus, uint32_t queue) {
    JobSpec job = gang(id, 1, 0, queue);
    job.shape.groups[0].shape = gpu_pod(0, cpus);
    return job;
  };
  bench.submit(cpu_job(1, 4, 0));
  bench.submit(cpu_job(2, 1, 1));
  settle(bench, minute(0));
  bench.submit(cpu_job(3, 4, 1));
  EXPECT_LE(settle(bench).evicted.size(), 1u);
  for (int round = 0; round < 100; ++round)
    EXPECT_TRUE(settle(bench, minute(2 + round)).evicted.empty());
}

TEST(Eviction, S21a_Preemption_UsesWhatIsFreeAndTakesOneVictim) {
  Bench bench(topology_of({}, {{{}, 2, 8}}), {queue_spec(0)}, kEvicting);
  bench.submit(gang(1, 1, 8));
  settle(bench, minute(0));
  bench.submit(with_priority(gang(2, 2, 8), 10));
  const Outcome outcome = settle(bench);
  EXPECT_EQ(outcome.evicted, Ids{1});
  EXPECT_EQ(outcome.started, Ids{2});
  EXPECT_EQ(bench.why(1), "waits: the largest cluster (cluster) holds 0 of 1 pods");
}

TEST(Eviction, S21b_Preemption_TakesOneWholeGangNotAPodOfEach) {
  Bench bench(topology_of({}, {{{}, 13, 8}}), {queue_spec(0)}, kEvicting);
  for (uint64_t id = 1; id <= 10; ++id) bench.submit(gang(id, 10, 1));
  settle(bench, minute(0));
  bench.submit(with_priority(gang(50, 10, 1), 10));
  EXPECT_EQ(settle(bench).evicted.size(), 1u);
}

TEST(Eviction, EqualPriorityOrNonPreemptibleWork_IsNotPreempted) {
  Bench bench(topology_of({}, {{{}, 1, 8}}), {queue_spec(0, 8)}, kEvicting);
  JobSpec fixed = gang(1, 1, 4);
  fixed.is_preemptible = false;
  bench.submit(fixed);
  bench.submit(with_priority(gang(2, 1, 4), 10));
  settle(bench, minute(0));
  bench.submit(with_priority(gang(3, 1, 4), 10));
  EXPECT_TRUE(settle(bench).evicted.empty());
}

TEST(Eviction, S25_QueueAboveItsShare_WaitsAndNeverEvicts) {
  Bench bench(topology_of({}, {{{}, 30, 10}}),
              {queue_spec(0, 150), queue_spec(1, 150), queue_spec(2)}, kEvicting);
  for (uint64_t id = 1; id <= 25; ++id) bench.submit(gang(id, 1, 10, 0));
  for (uint64_t id = 31; id <= 35; ++id) bench.submit(gang(id, 1, 10, 2));
  settle(bench, minute(0));
  bench.submit(gang(50, 5, 10, 0));
  for (int round = 0; round < 100; ++round)
    EXPECT_TRUE(settle(bench, minute(1 + round)).evicted.empty());
}

TEST(Eviction, S25_OneJobOfFourAgainstFourOfTwo_IsHalfAndHalf) {
  Bench bench(topology_of({}, {{{}, 8, 1}}), {queue_spec(0), queue_spec(1)}, kEvicting);
  for (uint64_t id = 1; id <= 4; ++id) bench.submit(gang(id, 2, 1, 0));
  settle(bench, minute(0));
  bench.submit(gang(50, 4, 1, 1));
  EXPECT_EQ(settle(bench).evicted.size(), 2u);
  for (int round = 0; round < 100; ++round)
    EXPECT_TRUE(settle(bench, minute(2 + round)).evicted.empty());
}

TEST(Eviction, S6_WorkWithinItsShare_IsNotTakenForWhatExceedsAQuota) {
  // Node 0 is full of queue 0; each of the other four holds three jobs of two GPUs of queue 1.
  Bench bench(topology_of({}, {{{}, 5, 8}}), {queue_spec(0, 8), queue_spec(1, 32)}, kEvicting);
  bench.submit(gang(1, 1, 8, 0));
  for (uint64_t node = 0; node < 4; ++node) {
    JobSpec trio = gang(10 + node, 1, 6, 1);
    trio.shape.groups[0].shape = gpu_pod(6);
    bench.submit(trio);
  }
  EXPECT_EQ(settle(bench, minute(0)).started.size(), 5u);
  bench.submit(gang(2, 1, 8, 0));
  for (int round = 0; round < 100; ++round)
    EXPECT_TRUE(settle(bench, minute(1 + round)).evicted.empty());
  EXPECT_EQ(
      bench.why(2),
      "waits: enough is free, but in pieces: the largest cluster (cluster) holds 0 of 1 pods");
}

TEST(Eviction, Quota_IsReachedIntoOnlyIfNoOtherVictimsDo) {
  // Queue 0 (quota 4) holds 6 GPUs: a gang of 6. Queue 2 holds 2 of no quota. Queue 1 claims 2 of
  // its 4.
  const auto topology = topology_of({}, {{{}, 8, 1}});
  Bench both(topology, {queue_spec(0, 4), queue_spec(1, 4), queue_spec(2)}, kEvicting);
  both.submit(gang(1, 6, 1, 0));
  both.submit(gang(2, 2, 1, 2));
  settle(both, minute(0));
  both.submit(gang(3, 2, 1, 1));
  EXPECT_EQ(settle(both).evicted, Ids{2});

  Bench rigid(topology, {queue_spec(0, 4), queue_spec(1, 4)}, kEvicting);
  rigid.submit(gang(1, 8, 1, 0));
  settle(rigid, minute(0));
  rigid.submit(gang(3, 4, 1, 1));
  const Outcome outcome = settle(rigid);
  EXPECT_EQ(outcome.evicted, Ids{1});
  EXPECT_EQ(outcome.started, Ids{3});
  rigid.submit(gang(4, 1, 1, 0));  // within what queue 0 has lost, beside the claimant
  EXPECT_EQ(settle(rigid, minute(2)).started, Ids{4});
  for (int round = 0; round < 100; ++round)
    EXPECT_TRUE(settle(rigid, minute(3 + round)).evicted.empty());
}

TEST(Eviction, S27_ImpossibleJobFirst_TheNextOneTakesTwoBorrowers) {
  Bench bench(topology_of({}, {{{}, 3, 1}}), {queue_spec(0, 3), queue_spec(1)}, kEvicting);
  bench.submit(gang(1, 1, 1, 1));
  bench.submit(gang(2, 1, 1, 1));
  settle(bench, minute(0));
  bench.submit(gang(3, 4, 1, 0));
  bench.submit(gang(4, 3, 1, 0));
  const Outcome outcome = settle(bench);
  EXPECT_EQ(outcome.evicted, (Ids{1, 2}));
  EXPECT_EQ(outcome.started, Ids{4});
  EXPECT_EQ(bench.why(3), "can never run: the largest cluster (cluster) holds 3 of 4 pods");
}

TEST(Eviction, S1_GangBoundToAClique_DisturbsTheTwoJobsOfOneCliqueAndOneMovesOver) {
  Bench bench(topology_of({"clique"}, {{{"c0"}, 2, 4}, {{"c1"}, 2, 4}}), {queue_spec(0, 16)},
              kEvicting);
  const auto inside = [](JobSpec job, int32_t priority) {
    job.shape.closeness.required = Level(1);
    return with_priority(std::move(job), priority);
  };
  bench.submit(with_priority(gang(1, 1, 4), 50));
  bench.submit(with_priority(gang(2, 1, 4), 50));
  settle(bench, minute(0));
  JobSpec fixed = with_priority(gang(3, 1, 4), 100);
  fixed.is_preemptible = false;
  bench.submit(fixed);
  settle(bench, minute(0));
  bench.submit(inside(gang(4, 2, 4), 75));
  const Outcome outcome = settle(bench);
  EXPECT_EQ(outcome.evicted, (Ids{1, 2}));
  EXPECT_EQ(bench.nodes_of(4), (std::vector<std::string>{"n0", "n1"}));
  EXPECT_EQ(bench.nodes_of(1), std::vector<std::string>{"n3"});
  EXPECT_TRUE(bench.nodes_of(2).empty());
}

TEST(Eviction, S23_VictimsOfADomainBoundGang_AreAllInTheDomainOfLeastHarm) {
  Bench bench(topology_of({"clique"}, {{{"c0"}, 4, 4}, {{"c1"}, 4, 4}}),
              {queue_spec(0, 16), queue_spec(1)}, kEvicting);
  for (uint64_t id = 1; id <= 8; ++id) {
    JobSpec job = gang(id, 1, 4, 1);
    job.stop = {.restart = Duration::seconds(id <= 4 ? 100 : 10),
                .checkpoint_every = Duration::seconds(1)};
    bench.submit(job);
  }
  settle(bench, minute(0));
  JobSpec bound = gang(20, 4, 4, 0);
  bound.shape.closeness.required = Level(1);
  bench.submit(bound);
  const Outcome outcome = settle(bench);
  EXPECT_EQ(outcome.evicted, (Ids{5, 6, 7, 8}));
  EXPECT_EQ(bench.last.starts.size(), 0u);
}

TEST(Eviction, Harm_IsRestartAndTheWorkSinceTheLastCheckpoint) {
  Job job{.spec = gang(1, 2, 4), .total = Resources::gpus(8), .started = minute(0)};
  EXPECT_EQ(harm_of(job, minute(10)), 8 * 600'000);  // without checkpoints all is lost
  job.spec.stop = {.restart = Duration::seconds(30), .checkpoint_every = Duration::seconds(240)};
  EXPECT_EQ(harm_of(job, minute(10)), 8 * (30'000 + 120'000));
}

TEST(Eviction, Reason_NamesQueuesAndShares) {
  Bench bench(topology_of({}, {{{}, 2, 1}}), {queue_spec(0), queue_spec(1)}, kEvicting);
  bench.submit(gang(1, 1, 1, 0));
  bench.submit(gang(2, 1, 1, 0));
  settle(bench, minute(0));
  bench.submit(gang(3, 1, 1, 1));
  bench.plan(minute(1));
  ASSERT_EQ(bench.last.evictions.size(), 1u);
  EXPECT_EQ(bench.last.evictions[0].reason,
            "queue q0 holds 2000 of its share of 1000 thousandths of GPUs; with j3 queue q1 holds "
            "1000 of 1000");
}

}  // namespace
}  // namespace paceline::sched
