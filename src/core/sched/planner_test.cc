// Goal: what starts, where, and why the rest waits. Method: the scenarios of users' complaints
// (S...), and small clusters on which the right answer can be seen.
#include "core/sched/planner.h"

#include <gtest/gtest.h>

#include "core/sched/cluster_for_test.h"

namespace paceline::sched {
namespace {

using namespace test;
using Ids = std::vector<uint64_t>;
using Names = std::vector<std::string>;

TEST(Planner, SingleGpuJobs_FillTheFullestNodeFirst) {
  Bench bench(topology_of({}, {{{}, 2, 4}}), {queue_spec(0)});
  for (uint64_t id = 1; id <= 3; ++id) bench.submit(gang(id, 1, 1));
  EXPECT_EQ(bench.plan(), (Ids{1, 2, 3}));
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_EQ(bench.nodes_of(id), Names{"n0"});
}

TEST(Planner, Gang_StartsWholeOrNotAtAll) {
  Bench bench(topology_of({}, {{{}, 2, 4}}), {queue_spec(0)});
  bench.submit(gang(1, 1, 2));
  bench.submit(gang(2, 2, 4));
  EXPECT_EQ(bench.plan(), Ids{1});
  EXPECT_EQ(bench.why(2), "waits: the largest cluster (cluster) holds 1 of 2 pods");
  bench.end(1);
  EXPECT_EQ(bench.plan(), Ids{2});
}

TEST(Planner, Gang_GoesIntoTheSmallestDomainThatHoldsIt) {
  Bench bench(topology_of({"rack"}, {{{"big"}, 4}, {{"small"}, 2}}), {queue_spec(0)});
  bench.submit(gang(1, 2, 8));
  bench.plan();
  EXPECT_EQ(bench.nodes_of(1), (Names{"n4", "n5"}));
}

TEST(Planner, PreferredRack_WorkedExampleOfKai) {
  // Zone A has racks of 2, 1, 1, 1 nodes, zone B of 2, 2, 2.
  Bench bench(topology_of({"zone", "rack"}, {{{"A", "A1"}, 2, 1},
                                             {{"A", "A2"}, 1, 1},
                                             {{"A", "A3"}, 1, 1},
                                             {{"A", "A4"}, 1, 1},
                                             {{"B", "B1"}, 2, 1},
                                             {{"B", "B2"}, 2, 1},
                                             {{"B", "B3"}, 2, 1}}),
              {queue_spec(0)});
  JobSpec job = gang(1, 3, 1);
  job.shape.closeness = {.required = Level(1), .preferred = Level(2)};
  bench.submit(job);
  bench.plan();
  EXPECT_EQ(bench.nodes_of(1), (Names{"n0", "n1", "n2"}));
}

TEST(Planner, S2_FailedTrials_LeaveNoTraceAndTheIdleRackIsFound) {
  Bench bench(topology_of({"rack"}, {{{"r4"}, 18, 4}, {{"r11"}, 18, 4}}), {queue_spec(0)});
  for (uint64_t id = 1; id <= 16; ++id) bench.submit(gang(id, 1, 4));
  bench.plan();
  JobSpec two_groups = gang(100, 16, 4);
  two_groups.shape.groups.push_back({.name = "more", .shape = gpu_pod(4), .pods = 20});
  two_groups.shape.closeness.required = Level(0);
  bench.submit(two_groups);
  const uint64_t before = bench.planner.fleet().hash();
  for (int round = 0; round < 1000; ++round) {
    EXPECT_EQ(bench.plan(), Ids{});
    bench.submit(gang(200, 40, 4));  // never fits
    bench.end(200);
  }
  EXPECT_EQ(bench.planner.fleet().hash(), before);
  JobSpec whole = gang(101, 16, 4);
  whole.shape.closeness.required = Level(1);
  bench.submit(whole);
  EXPECT_EQ(bench.plan(), Ids{101});
  EXPECT_EQ(bench.nodes_of(101).front(), "n18");
}

TEST(Planner, S10_PlacementDoesNotDependOnTheOrderOfInput) {
  std::vector<NodeSpec> specs = node_specs({{{"r"}, 3, 2}});
  specs[1].kind.capacity[kFirstNamed] = 1;
  JobSpec job = gang(1, 1, 1);
  job.shape.groups[0].shape.amount[kFirstNamed] = 1;
  std::vector<size_t> order = {0, 1, 2};
  do {
    std::vector<NodeSpec> shuffled;
    for (const size_t i : order) shuffled.push_back(specs[i]);
    Bench bench(std::make_shared<Topology>(*Topology::make({"rack"}, shuffled)), {queue_spec(0)});
    bench.submit(job);
    bench.plan();
    EXPECT_EQ(bench.nodes_of(1), Names{"n1"});
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Planner, S12_GangAboveTheLimit_PlacesNothingAndNamesTheLimit) {
  Bench bench(topology_of({}, {{{}, 4, 8}}), {queue_spec(0, 0, 4)});
  bench.submit(gang(1, 3, 2));
  EXPECT_EQ(bench.plan(), Ids{});
  EXPECT_EQ(bench.why(1), "can never run: the limit of queue q0 is 4 GPUs, it needs 6");
  EXPECT_EQ(bench.planner.explain(JobId(1))->change->amount, 2000);
}

TEST(Planner, S18_LargestPodsAreSeatedFirst) {
  Bench bench(topology_of({}, {{{}, 1, 0, 53}, {{}, 1, 0, 31}}), {queue_spec(0)});
  JobSpec job = gang(1, 1, 0);
  job.shape.groups = {{.name = "x", .shape = gpu_pod(0, 30)},
                      {.name = "y", .shape = gpu_pod(0, 50)}};
  bench.submit(job);
  bench.plan();
  EXPECT_EQ(bench.nodes_of(1, 0), Names{"n1"});
  EXPECT_EQ(bench.nodes_of(1, 1), Names{"n0"});
}

TEST(Planner, S19_SoftTopology_TakesTheLeafWithBothNodesAndTwoFullLeaves) {
  const auto topology = topology_of({"leaf"}, {{{"l0"}, 2, 1}, {{"l1"}, 2, 1}, {{"l2"}, 2, 1}});
  Bench partly(topology, {queue_spec(0)});
  for (const uint32_t down : {3u, 5u}) partly.set_node(down, false);
  partly.submit(gang(1, 2, 1));
  partly.plan();
  EXPECT_EQ(partly.nodes_of(1), (Names{"n0", "n1"}));

  Bench idle(topology, {queue_spec(0)});
  idle.submit(gang(1, 4, 1));
  idle.plan();
  EXPECT_EQ(idle.nodes_of(1), (Names{"n0", "n1", "n2", "n3"}));
}

TEST(Planner, S20_RequiredLeafOfASubgroup_IsNeverSpread) {
  Bench bench(topology_of({"leaf"}, {{{"l0"}, 1, 0, 2}, {{"l1"}, 1, 0, 2}, {{"l2"}, 1, 0, 2}}),
              {queue_spec(0)});
  JobSpec job = gang(1, 2, 0);
  job.shape.groups[0].shape = gpu_pod(0, 2);
  job.shape.groups[0].closeness.required = Level(1);
  bench.submit(job);
  EXPECT_EQ(bench.plan(), Ids{});
  EXPECT_EQ(bench.why(1), "can never run: the largest leaf (l0) holds 1 of 2 pods");
}

TEST(Planner, S27_ImpossibleJob_DoesNotBlockAPossibleOne) {
  for (const Backfill backfill : {Backfill::Strict, Backfill::Pass, Backfill::Reserve}) {
    Bench bench(topology_of({}, {{{}, 3, 1}}), {queue_spec(0)}, {.backfill = backfill});
    bench.submit(gang(1, 4, 1));
    bench.submit(gang(2, 3, 1));
    EXPECT_EQ(bench.plan(), Ids{2});
    EXPECT_EQ(bench.why(1), "can never run: the largest cluster (cluster) holds 3 of 4 pods");
  }
}

TEST(Planner, S30_FreeGpusInPieces_AreCalledFragmented) {
  Bench bench(topology_of({}, {{{}, 16, 1}, {{}, 2, 8}}), {queue_spec(0)});
  bench.submit(gang(1, 2, 8));
  bench.submit(gang(2, 2, 8));
  EXPECT_EQ(bench.plan(), Ids{1});
  EXPECT_EQ(
      bench.why(2),
      "waits: enough is free, but in pieces: the largest cluster (cluster) holds 0 of 2 pods");
}

TEST(Planner, TwoQueues_AreServedInTurnUntilTheirShares) {
  Bench bench(topology_of({}, {{{}, 8, 1}}), {queue_spec(0), queue_spec(1)});
  for (uint64_t id = 1; id <= 8; ++id) {
    bench.submit(gang(id, 1, 1, 0));
    bench.submit(gang(100 + id, 1, 1, 1));
  }
  EXPECT_EQ(bench.plan(), (Ids{1, 101, 2, 102, 3, 103, 4, 104}));
}

TEST(Planner, NodeDown_SendsItsGangBackToItsPlaceInTheQueue) {
  Bench bench(topology_of({}, {{{}, 3, 1}}), {queue_spec(0)});
  bench.submit(gang(1, 2, 1));
  bench.plan();
  bench.submit(gang(2, 2, 1));
  bench.set_node(0, false);
  EXPECT_EQ(bench.plan(), Ids{1});
  EXPECT_EQ(bench.nodes_of(1), (Names{"n1", "n2"}));
  bench.set_node(0, true);
  bench.end(1);
  EXPECT_EQ(bench.plan(), Ids{2});
}

TEST(Planner, Fraction_SitsOnTheFullestGpuThatHasRoom) {
  Bench bench(topology_of({}, {{{}, 1, 2}}), {queue_spec(0)});
  const auto part = [](uint64_t id, int64_t milli) {
    JobSpec job = gang(id, 1, 1);
    job.shape.groups[0].shape.amount[kGpu] = milli;
    return job;
  };
  for (const auto& [id, milli] :
       std::vector<std::pair<uint64_t, int64_t>>{{1, 600}, {2, 500}, {3, 400}})
    bench.submit(part(id, milli));
  bench.plan();
  const auto gpus = [&bench](uint64_t id) {
    return bench.planner.jobs().at(JobId(id)).placement->groups[0][0].gpus;
  };
  EXPECT_EQ(gpus(1), 1);
  EXPECT_EQ(gpus(2), 2);
  EXPECT_EQ(gpus(3), 1);
  bench.submit(part(4, 600));
  EXPECT_EQ(bench.plan(), Ids{});
}

TEST(Planner, ImpossibleAmounts_AreRefusedByName) {
  Bench bench(topology_of({}, {{{}, 1, 2}}), {queue_spec(0)});
  JobSpec job = gang(1, 1, 2);
  job.shape.groups[0].shape.amount[kGpu] = 1500;
  const Status status = bench.planner.apply(JobSubmitted{job});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message, "job j1: a fraction of 2 GPUs; only one GPU is divided");
}

TEST(Planner, SpentBudget_IsSaidAndNothingIsCalledImpossible) {
  Bench bench(topology_of({}, {{{}, 100, 8}}), {queue_spec(0)});
  bench.submit(gang(1, 20, 8));
  SearchBudget small(50);
  const Plan plan = bench.planner.plan({}, small);
  EXPECT_FALSE(plan.is_finished);
  EXPECT_EQ(bench.why(1), "undecided: the search bound was met");
  EXPECT_EQ(bench.plan(), Ids{1});
}

TEST(Planner, S3_LargeGang_IsNotStarvedByAStreamOfSmallJobs) {
  Bench bench(topology_of({}, {{{}, 8, 8}}), {queue_spec(0)});
  std::vector<std::pair<Instant, uint64_t>> ends;  // of running jobs
  std::map<uint64_t, Instant> started;
  const auto run = [&](Instant now) {
    for (const uint64_t id : bench.plan(now)) {
      started[id] = now;
      ends.emplace_back(now + *bench.planner.jobs().at(JobId(id)).spec.expected, id);
    }
    std::sort(ends.begin(), ends.end());
  };
  const auto job = [](uint64_t id, uint32_t pods, int64_t minutes) {
    JobSpec spec = gang(id, pods, 8);
    spec.expected = Duration::seconds(60 * minutes);
    return spec;
  };
  // Every node runs a job of 60 minutes; their ends are 7.5 minutes apart, the last one at 60.
  for (uint64_t id = 1; id <= 8; ++id) {
    JobSpec spec = job(id, 1, 0);
    spec.expected = Duration::seconds(450 * static_cast<int64_t>(id));
    bench.submit(spec);
  }
  run(minute(0));
  bench.submit(job(50, 8, 60));
  uint64_t next = 100;
  for (int64_t at = 0; at <= 60; ++at) {
    while (!ends.empty() && ends.front().first <= minute(at)) {
      bench.end(ends.front().second);
      ends.erase(ends.begin());
    }
    if (at % 5 == 0) {
      bench.submit(job(next++, 1, 60));
      bench.submit(job(next++, 1, 5));
    }
    run(minute(at));
    ASSERT_TRUE(started.count(50) == 1 || at < 60);
  }
  EXPECT_EQ(started.at(50), minute(60));
  size_t short_jobs = 0;
  for (const auto& [id, when] : started) {
    if (id < 100 || when >= minute(60)) continue;
    EXPECT_EQ(id % 2, 1u) << "a job of 60 minutes passed the reserved time";
    ++short_jobs;
  }
  EXPECT_GE(short_jobs, 8u);
}

TEST(Planner, ReservedRoom_IsNamedInTheReasonOfWhoWaitsForIt) {
  Bench bench(topology_of({}, {{{}, 2, 8}}), {queue_spec(0)});
  JobSpec running = gang(1, 1, 8);
  running.expected = Duration::seconds(600);
  bench.submit(running);
  bench.submit(gang(2, 2, 8));
  JobSpec longer = gang(3, 1, 8);
  longer.expected = Duration::seconds(6000);
  bench.submit(longer);
  EXPECT_EQ(bench.plan(), Ids{1});
  ASSERT_EQ(bench.last.reservations.size(), 1u);
  EXPECT_EQ(bench.last.reservations[0].time, minute(10));
  EXPECT_EQ(bench.why(3), "waits: the room is kept for j2");
}

}  // namespace
}  // namespace paceline::sched
