// Goal: traces are read or their bad rows named; a replay's waits are those that one can reckon by
// hand, and the same input gives the same digest. Method: small inputs written here.
#include <gtest/gtest.h>

#include <sstream>

#include "base/rng.h"
#include "sim/workload/csv.h"
#include "sim/workload/summary.h"

namespace paceline::sim {
namespace {

Trace trace_of(const std::string& text) {
  std::istringstream input(text);
  return *read_trace(input);
}

std::shared_ptr<const sched::Topology> nodes(uint32_t count, int64_t gpus) {
  std::vector<sched::NodeSpec> specs;
  for (uint32_t i = 0; i < count; ++i)
    specs.push_back({.id = sched::NodeId(i),
                     .name = str("n", i),
                     .kind = {.capacity = sched::Resources::gpus(gpus)}});
  return std::make_shared<sched::Topology>(*sched::Topology::make({}, specs));
}

sched::QueueTree queues(const std::vector<std::string>& names) {
  std::vector<sched::QueueSpec> specs;
  for (const std::string& name : names)
    specs.push_back({.id = sched::QueueId(static_cast<uint32_t>(specs.size())), .name = name});
  return *sched::QueueTree::make(specs);
}

void run(Replay& replay) {
  while (replay.step()) {
  }
}

TEST(Csv, Numbers_AreExactAndWhatIsNoneIsRefused) {
  EXPECT_EQ(parse_milli("66.0"), 66'000);
  EXPECT_EQ(parse_milli("0.4605"), 460);
  EXPECT_EQ(parse_milli("-2"), -2'000);
  for (const char* text :
       {"", "nan", "inf", "1e9", "1.5x", "--1", ".", "1234567890123", "99999999999999999999999"})
    EXPECT_FALSE(parse_milli(text).has_value()) << text;
}

TEST(Trace, Philly_IsReadSortedAndRelativeToItsFirstJob) {
  const Trace trace = trace_of(
      "timestamp,duration,num_gpus,gpu_time,cluster\n"
      "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n"
      "2017-10-09 06:13:03,2951.0,8,2951.0,6214e9\n");
  EXPECT_EQ(trace.format, "philly");
  ASSERT_EQ(trace.jobs.size(), 2u);
  EXPECT_EQ(trace.jobs[0].line, 3u);
  EXPECT_EQ(trace.jobs[0].gpu_milli, 8000);
  EXPECT_EQ(trace.jobs[1].submitted, Duration::seconds(48 * 60 + 52));
  EXPECT_EQ(trace.jobs[1].queue, "11cb48");
}

TEST(Trace, Timestamp_CountsLeapDays) {
  EXPECT_EQ(parse_timestamp("1970-01-01 00:00:00"), 0);
  EXPECT_EQ(parse_timestamp("2000-03-01 00:00:00"), 951'868'800);
  EXPECT_EQ(parse_timestamp("2017-10-02 00:00:01"), 1'506'902'401);
  EXPECT_FALSE(parse_timestamp("2017-10-02").has_value());
  EXPECT_FALSE(parse_timestamp("2017-13-02 00:00:01").has_value());
  EXPECT_FALSE(parse_timestamp("9999-01-01 00:00:00").has_value());
}

TEST(Trace, Openb_IsReadWithFractionsAndModels) {
  const Trace trace = trace_of(
      "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_"
      "time,scheduled_time\n"
      "p0,6000,12288,1,460,V100M16|V100M32,LS,Running,427061,427161,427071\n"
      "p1,6000,12288,0,,,LS,Running,427061,427161,\n"
      "p2,6000,12288,2,460,,LS,Running,427061,427161,427071\n");
  EXPECT_EQ(trace.format, "openb");
  ASSERT_EQ(trace.jobs.size(), 2u);
  EXPECT_EQ(trace.jobs[0].gpu_milli, 460);
  EXPECT_EQ(trace.jobs[0].duration, Duration::seconds(90));
  EXPECT_EQ(trace.jobs[0].gpu_models, (std::vector<std::string>{"V100M16", "V100M32"}));
  EXPECT_EQ(trace.jobs[1].gpu_milli, 0);
  ASSERT_EQ(trace.bad_rows.size(), 1u);
  EXPECT_EQ(trace.bad_rows[0].line, 4u);
  EXPECT_EQ(trace.bad_rows[0].reason, "a fraction of 2 GPUs");
}

TEST(Trace, S13_WhatIsNoNumber_IsNamedByLineAndField) {
  const Trace trace =
      trace_of("submit_s,duration_s,gpus\n0,10,NaN\n0,10,inf\n0,10,-1\n\n0,10\n0,10,1\n");
  ASSERT_EQ(trace.bad_rows.size(), 4u);
  EXPECT_EQ(trace.bad_rows[0].reason, "gpus is 'NaN'");
  EXPECT_EQ(trace.bad_rows[2].line, 4u);
  EXPECT_EQ(trace.bad_rows[3].line, 6u);
  EXPECT_EQ(trace.jobs.size(), 1u);
}

TEST(Trace, Window_LeavesOutAndCounts) {
  std::istringstream input("submit_s,duration_s,gpus\n0,1,1\n10,1,1\n20,1,1\n");
  const Trace trace =
      *read_trace(input, {.from = Duration::seconds(10), .until = Duration::seconds(20)});
  EXPECT_EQ(trace.jobs.size(), 1u);
  EXPECT_EQ(trace.outside_window, 2u);
}

TEST(Trace, UnknownHeader_IsRefused) {
  std::istringstream input("a,b,c\n1,2,3\n");
  EXPECT_FALSE(read_trace(input).has_value());
}

TEST(Replay, FirstComeFirstServed_WaitsAreThoseByHand) {
  // One node of 2 GPUs. The second job needs both and blocks the third.
  const Trace trace = trace_of("submit_s,duration_s,gpus\n0,10,1\n1,10,2\n2,3,1\n");
  Replay replay(nodes(1, 2), queues({"q"}), trace,
                {.policy = {.backfill = sched::Backfill::Strict}});
  run(replay);
  const Summary summary = summary_of(replay, trace);
  EXPECT_EQ(summary.ended, 3u);
  EXPECT_DOUBLE_EQ(summary.wait.max, 18);  // the third: from 2 to 20
  EXPECT_DOUBLE_EQ(summary.wait.mean, (0 + 9 + 18) / 3.0);
  EXPECT_DOUBLE_EQ(summary.completion.mean, (10 + 19 + 21) / 3.0);
  EXPECT_DOUBLE_EQ(summary.allocation, (10 + 20 + 3) / (23 * 2.0));
}

TEST(Replay, Backfill_UsesTheGapWithoutDelayingTheFirst) {
  const Trace trace = trace_of("submit_s,duration_s,gpus\n0,10,1\n1,10,2\n2,3,1\n");
  Replay replay(nodes(1, 2), queues({"q"}), trace, {.foresight = Foresight::Perfect});
  run(replay);
  const Summary summary = summary_of(replay, trace);
  EXPECT_DOUBLE_EQ(summary.wait.mean, (0 + 9 + 0) / 3.0);
}

TEST(Replay, JobLargerThanANode_IsWholeNodesAndOneRest) {
  const Trace trace = trace_of("submit_s,duration_s,gpus\n0,10,12\n0,10,4\n");
  Replay replay(nodes(2, 8), queues({"q"}), trace, {});
  run(replay);
  EXPECT_DOUBLE_EQ(summary_of(replay, trace).wait.max, 0);
}

TEST(Replay, UnknownQueueAndImpossibleJob_AreNamedNotDropped) {
  const Trace trace =
      trace_of("submit_s,duration_s,gpus,queue\n0,10,1,a\n0,10,1,nowhere\n0,10,1.5,a\n0,10,64,b\n");
  Replay replay(nodes(2, 8), queues({"a", "b"}), trace, {});
  run(replay);
  ASSERT_EQ(replay.bad_rows().size(), 2u);
  EXPECT_EQ(replay.bad_rows()[0].line, 3u);
  EXPECT_EQ(replay.bad_rows()[0].reason, "queue 'nowhere' is not in the cluster file");
  EXPECT_EQ(replay.bad_rows()[1].line, 4u);
  ASSERT_EQ(replay.left_over().size(), 1u);
  EXPECT_EQ(replay.left_over()[0].second,
            "can never run: the largest cluster (cluster) holds 2 of 8 pods");
}

TEST(Replay, SameInput_GivesTheSameDigest) {
  std::string text = "submit_s,duration_s,gpus,queue\n";
  Rng rng(4);
  for (int i = 0; i < 300; ++i)
    text += str(rng.between(0, 2000), ",", rng.between(1, 300), ",", rng.between(1, 12), ",",
                rng.chance_ppm(500'000) ? "a" : "b", "\n");
  const Trace trace = trace_of(text);
  uint64_t digests[2];
  for (uint64_t& digest : digests) {
    Replay replay(nodes(4, 8), queues({"a", "b"}), trace, {.foresight = Foresight::Perfect});
    run(replay);
    EXPECT_EQ(replay.ended_count(), 300u);
    digest = replay.digest();
  }
  EXPECT_EQ(digests[0], digests[1]);
  EXPECT_EQ(digests[0], 6152931934195806752u)
      << "golden: a change of a decision changes it; look at what changed, then write it here";
}

TEST(Replay, EvictedJob_GoesOnFromItsCheckpointAfterARestart) {
  // One node. `low` has worked for 25 s when `high` comes: 20 s of it are in a checkpoint, 5 are
  // lost.
  const Trace trace = trace_of("submit_s,duration_s,gpus,priority\n0,100,1,0\n25,10,1,5\n");
  Replay replay(
      nodes(1, 1), queues({"q"}), trace,
      {.policy = {.evictions = sched::Evictions::Allowed},
       .stop = {.restart = Duration::seconds(7), .checkpoint_every = Duration::seconds(10)}});
  run(replay);
  const Summary summary = summary_of(replay, trace);
  EXPECT_EQ(summary.evictions, 1u);
  EXPECT_EQ(summary.ended, 2u);
  EXPECT_DOUBLE_EQ(summary.hours * 3600, 35 + 7 + 80);
  EXPECT_DOUBLE_EQ(summary.wait.max, 10 + 7 + 5);  // everything but its 100 s of work
  EXPECT_DOUBLE_EQ(summary.lost, 5 / 122.0);
}

TEST(Replay, Reclaim_GivesAQueueItsShareAndTheDigestIsTheSameAgain) {
  std::string text = "submit_s,duration_s,gpus,queue\n";
  for (int i = 0; i < 16; ++i) text += "0,1000,1,a\n";
  for (int i = 0; i < 16; ++i) text += "100,1000,1,b\n";
  const Trace trace = trace_of(text);
  uint64_t digests[2];
  for (uint64_t& digest : digests) {
    Replay replay(nodes(1, 8), queues({"a", "b"}), trace,
                  {.policy = {.evictions = sched::Evictions::Allowed}});
    run(replay);
    EXPECT_EQ(replay.ended_count(), 32u);
    EXPECT_EQ(replay.totals().evictions, 4u);  // down to half, once
    digest = replay.digest();
  }
  EXPECT_EQ(digests[0], digests[1]);
}

TEST(Summary, Percentiles_AreSamples) {
  std::vector<Duration> values;
  for (int64_t i = 1; i <= 100; ++i) values.push_back(Duration::seconds(i));
  const Spread spread = spread_of(values);
  EXPECT_DOUBLE_EQ(spread.p50, 50);
  EXPECT_DOUBLE_EQ(spread.p99, 99);
  EXPECT_DOUBLE_EQ(spread.max, 100);
  EXPECT_EQ(spread_of({}).count, 0u);
}

}  // namespace
}  // namespace paceline::sim
