// Goal: a cluster file says what it means or is refused with its line; the report holds the figures
// of the replay.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/sim/cluster_file.h"
#include "cli/sim/sim_report.h"

namespace paceline::cli {
namespace {

constexpr const char* kCluster = R"(
levels: [leaf, rack]
nodes:
  - {count: 2, name: dgx, in: [l0, r0], gpus: 8, cpus: 96, memory_gib: 1024, gpu_model: H100, features: [ib]}
  - {in: [l0, r1], gpus: 4}
queues:
  - name: company
  - {name: research, parent: company, quota: {gpus: 8}, limit: {gpus: 16, cpus: 0.5}, weight: 2, priority: 1}
)";

TEST(ClusterFile, EveryKey_IsTaken) {
  const Result<ClusterFile> cluster = parse_cluster_file(kCluster);
  ASSERT_TRUE(cluster.has_value()) << cluster.error().message;
  const sched::Topology& topology = *cluster->topology;
  EXPECT_EQ(topology.node_count(), 3u);
  EXPECT_EQ(topology.node(0).name, "dgx0");
  EXPECT_EQ(topology.kind(topology.node(0).kind).gpu_model, "H100");
  EXPECT_EQ(topology.kind(topology.node(0).kind).capacity[sched::kMemory], 1024 * 1024);
  EXPECT_EQ(topology.find_level("rack"), sched::Level(2));
  const sched::Queue& research = cluster->queues[*cluster->queues.find("research")];
  EXPECT_EQ(research.parent, 0u);
  EXPECT_EQ(research.spec.quota, sched::Resources::gpus(8));
  EXPECT_EQ(research.spec.limit[sched::kCpu], 500);
  EXPECT_EQ(research.spec.limit[sched::kMemory], sched::kUnlimited);
  EXPECT_EQ(research.spec.weight[sched::kGpu], 2);
}

TEST(ClusterFile, WithoutQueues_HasOne) {
  const Result<ClusterFile> cluster = parse_cluster_file("nodes: [{gpus: 8}]");
  ASSERT_TRUE(cluster.has_value()) << cluster.error().message;
  EXPECT_EQ(cluster->queues.size(), 1u);
}

TEST(ClusterFile, Mistakes_AreNamedWithTheirLine) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"nodes:\n  - gpu: 8\n", "line 2: unknown key 'gpu'"},
      {"nodes:\n  - gpus: many\n", "line 2: gpus must be a whole number"},
      {"nodes:\n  - gpus: 1.5\n", "line 2: gpus must be a whole number"},
      {"nodes: 3\n", "nodes is missing, or no list"},
      {"nodes: [{gpus: 17}]\n", "from 0 to 16"},
      {"levels: [rack]\nnodes: [{gpus: 8}]\n", "names 0 domains"},
      {"nodes: [{gpus: 8}]\nqueues:\n  - {name: a, parent: b}\n", "line 3: no queue is called 'b'"},
      {"nodes: [{gpus: 8}]\nqueues: []\n", "line 2: queues is no list, or an empty one"},
      {"nodes: [{gpus: 8}]\nqueues: {a: 1}\n", "line 2: queues is no list, or an empty one"},
      {"", "a map of keys and values is expected"},
      {"nodes: [{gpus: 8}\n", "line"},
  };
  for (const auto& [text, expected] : cases) {
    const Result<ClusterFile> cluster = parse_cluster_file(text);
    ASSERT_FALSE(cluster.has_value()) << text;
    EXPECT_NE(cluster.error().message.find(expected), std::string::npos) << cluster.error().message;
  }
}

TEST(SimReport, JsonHoldsTheFigures_TableNamesTheRows) {
  PolicyOutcome policy{.policy = "fifo",
                       .summary = {},
                       .digest = 0xABC,
                       .refused = {{7, "too large"}},
                       .left_over = {}};
  policy.summary.ended = 3;
  policy.summary.wait.mean = 7200;
  policy.summary.sizes.push_back({"8 to 15", {.count = 3, .mean = 7200}, {}});
  const SimOutcome outcome{
      .trace_format = "philly", .jobs = 4, .bad_rows = {{2, "gpus is 'x'"}}, .policies = {policy}};
  const auto json = nlohmann::json::parse(json_of(outcome));
  EXPECT_EQ(json["policies"][0]["digest"], "0000000000000abc");
  EXPECT_EQ(json["policies"][0]["sizes"][0]["wait_s"]["mean"], 7200.0);
  EXPECT_EQ(json["bad_rows"][0]["line"], 2);
  const std::string table = table_of(outcome);
  for (const char* part : {"line 2: gpus is 'x'", "line 7: too large", "8 to 15", "2.000"})
    EXPECT_NE(table.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace paceline::cli
