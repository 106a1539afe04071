// Workload traces and cluster files as users write them. Properties: every row is used, named or
// left out; what is used is within its bounds and sorted; a refusal is one line; a small replay of
// whatever was read comes to an end.
#include <sstream>
#include <string>

#include "base/str.h"
#include "cli/sim/cluster_file.h"
#include "fuzz/fuzz_target.h"
#include "sim/workload/replay.h"

namespace paceline::fuzz {
namespace {

constexpr size_t kMaxReplayed = 50;  // nodes and jobs: more is no other code, only longer

std::string random_trace(Rng& rng) {
  std::string text = "name,submit_s,duration_s,gpus,queue,pods,priority\n";
  for (uint64_t rows = rng.below(8); rows > 0; --rows)
    text += str("j", rows, ",", rng.below(100), ".", rng.below(1000), ",", rng.below(500), ",",
                rng.below(20), rng.below(2) == 0 ? ",a," : ",b,", 1 + rng.below(4), ",",
                rng.below(3), "\n");
  if (rng.chance_ppm(200'000))
    text = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,11cb48\n";
  return text;
}

std::string random_cluster(Rng& rng) {
  std::string text = "levels: [rack]\nnodes:\n";
  for (uint64_t entries = 1 + rng.below(3); entries > 0; --entries)
    text += str("  - {count: ", 1 + rng.below(4), ", in: [r", entries, "], gpus: ", rng.below(9),
                "}\n");
  if (rng.chance_ppm(700'000))
    text += str("queues:\n  - {name: a, quota: {gpus: ", rng.below(9),
                "}}\n  - {name: b, parent: ", rng.below(2) == 0 ? "a" : "b",
                ", limit: {gpus: ", rng.below(9), ".5}, weight: 2}\n");
  return text;
}

void check_one_line(const std::string& message) {
  CHECK(!message.empty() && message.find('\n') == std::string::npos, message);
}

void check_trace(const sim::Trace& trace) {
  for (size_t i = 0; i < trace.jobs.size(); ++i) {
    const sim::TraceJob& job = trace.jobs[i];
    CHECK(job.line > 1 && !job.name.empty());
    CHECK(job.submitted >= Duration() && job.duration >= Duration() && job.gpu_milli >= 0,
          job.name);
    CHECK(i == 0 || trace.jobs[i - 1].submitted <= job.submitted, job.name);
  }
  for (const sim::BadRow& row : trace.bad_rows) CHECK(row.line > 1 && !row.reason.empty());
}

void check_replay(const cli::ClusterFile& cluster, sim::Trace trace) {
  if (cluster.topology->node_count() > kMaxReplayed) return;
  if (trace.jobs.size() > kMaxReplayed) trace.jobs.resize(kMaxReplayed);
  for (sim::TraceJob& job : trace.jobs) job.pods = job.pods % kMaxReplayed;
  sim::Replay replay(
      cluster.topology, cluster.queues, trace,
      {.policy = {.evictions = sched::Evictions::Allowed}, .foresight = sim::Foresight::Perfect});
  while (replay.step()) {
  }
  // Jobs that would run on after the end of time are in neither.
  CHECK(replay.ended_count() + replay.left_over().size() + replay.bad_rows().size() <=
        trace.jobs.size());
}

}  // namespace

// A cluster file and a trace, with a line between that is in neither.
Bytes make_seed(Rng& rng) { return to_bytes(random_cluster(rng) + "%%\n" + random_trace(rng)); }

void check_input(std::span<const std::byte> input) {
  const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  const size_t border = std::min(text.find("%%\n"), text.size());
  const Result<cli::ClusterFile> cluster = cli::parse_cluster_file(text.substr(0, border));
  if (!cluster) check_one_line(cluster.error().message);
  std::istringstream rest(text.substr(std::min(border + 3, text.size())));
  const Result<sim::Trace> trace = sim::read_trace(rest);
  if (!trace) return check_one_line(trace.error().message);
  check_trace(*trace);
  if (cluster) check_replay(*cluster, *trace);
}

}  // namespace paceline::fuzz
