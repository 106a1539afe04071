// Small clusters and jobs for tests of the scheduler.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/sched/planner.h"

namespace paceline::sched::test {

inline constexpr uint64_t kPlenty = 1'000'000'000;

struct Domains {
  std::vector<std::string> path;
  uint32_t nodes = 1;
  int64_t gpus = 8;
  int64_t cpus = 0;
};

inline std::vector<NodeSpec> node_specs(const std::vector<Domains>& all) {
  std::vector<NodeSpec> specs;
  for (const Domains& domains : all)
    for (uint32_t i = 0; i < domains.nodes; ++i) {
      const auto id = static_cast<uint32_t>(specs.size());
      NodeClass kind{.capacity = Resources::gpus(domains.gpus).with(kCpu, domains.cpus * kMilli)};
      specs.push_back(
          NodeSpec{.id = NodeId(id), .name = str("n", id), .path = domains.path, .kind = kind});
    }
  return specs;
}

inline std::shared_ptr<const Topology> topology_of(std::vector<std::string> levels,
                                                   const std::vector<Domains>& all) {
  return std::make_shared<Topology>(*Topology::make(std::move(levels), node_specs(all)));
}

inline QueueSpec queue_spec(uint32_t id, int64_t quota = 0, int64_t limit = -1) {
  QueueSpec spec{
      .id = QueueId(id), .name = str("q", id), .quota = Resources::gpus(quota), .created = id};
  if (limit >= 0) spec.limit[kGpu] = limit * kMilli;
  return spec;
}

inline PodShape gpu_pod(int64_t gpus, int64_t cpus = 0) {
  return PodShape{.amount = Resources::gpus(gpus).with(kCpu, cpus * kMilli),
                  .gpu_count = static_cast<uint16_t>(gpus)};
}

inline JobSpec gang(uint64_t id, uint32_t pods, int64_t gpus_each, uint32_t queue = 0) {
  JobSpec job{.id = JobId(id),
              .name = str("j", id),
              .queue = QueueId(queue),
              .shape = {.groups = {{.name = "workers", .shape = gpu_pod(gpus_each), .pods = pods}}},
              .submitted = Instant::from_nanoseconds(static_cast<int64_t>(id))};
  return job;
}

inline Instant minute(int64_t minutes) { return Instant() + Duration::seconds(60 * minutes); }

// A planner and what its jobs are at.
class Bench {
 public:
  Bench(std::shared_ptr<const Topology> topology, std::vector<QueueSpec> queues, Policy policy = {})
      : planner(std::move(topology), *QueueTree::make(std::move(queues)), policy) {}

  void submit(const JobSpec& job) {
    const Status status = planner.apply(JobSubmitted{job});
    CHECK(status.has_value(), status.has_value() ? "" : status.error().message);
  }
  void end(uint64_t job) { CHECK(planner.apply(JobEnded{JobId(job)}).has_value()); }
  void set_node(uint32_t node, bool is_up) {
    CHECK(planner.apply(NodeChanged{NodeId(node), is_up}).has_value());
  }
  // Ids of the jobs that start.
  std::vector<uint64_t> plan(Instant now = {}) {
    SearchBudget budget(kPlenty);
    last = planner.plan(now, budget);
    std::vector<uint64_t> ids;
    for (const Start& start : last.starts) ids.push_back(start.job.value());
    return ids;
  }
  // Names of the nodes of a running job, in rank order; empty if it does not run.
  std::vector<std::string> nodes_of(uint64_t job, size_t group = 0) const {
    std::vector<std::string> names;
    const Job& found = planner.jobs().at(JobId(job));
    if (!found.placement) return names;
    for (const PodPlace& place : found.placement->groups[group])
      names.push_back(planner.fleet().topology().node(place.node).name);
    return names;
  }
  std::string why(uint64_t job) const {
    const std::optional<Verdict> verdict = planner.explain(JobId(job));
    return verdict ? verdict->text() : "runs";
  }

  Planner planner;
  Plan last;
};

}  // namespace paceline::sched::test
