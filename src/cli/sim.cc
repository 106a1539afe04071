// pace sim: what a scheduling policy would make of a workload on a cluster, in virtual time.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "base/str.h"
#include "cli/exit_code.h"
#include "cli/sim/cluster_file.h"
#include "cli/sim/sim_report.h"
#include "cli/verbs.h"
#include "sim/workload/replay.h"

namespace paceline::cli {
namespace {

struct SimOptions {
  std::string cluster_file;
  std::string trace_file;
  std::vector<std::string> policies = {"default"};
  std::string estimates = "stated";
  int64_t restart_s = 0;
  int64_t checkpoint_every_s = 0;  // 0: no checkpoints
  std::string from, until;
  std::string output = "table";
  bool is_quiet = false;
};

struct NamedPolicy {
  const char* name;
  sched::Policy policy;
};

const std::vector<NamedPolicy>& named_policies() {
  using sched::Backfill;
  using sched::JobOrder;
  static const std::vector<NamedPolicy> all = {
      {"default", {}},
      {"fifo", {.order = JobOrder::Age, .backfill = Backfill::Strict}},
      {"pass", {.order = JobOrder::Age, .backfill = Backfill::Pass}},
      {"easy", {.order = JobOrder::Age, .backfill = Backfill::Reserve, .reservations = 1}},
      {"sjf", {.order = JobOrder::ShortestFirst, .backfill = Backfill::Pass}},
      {"reclaim", {.evictions = sched::Evictions::Allowed}},
      {"sjf-easy", {.order = JobOrder::ShortestFirst, .backfill = Backfill::Reserve}},
  };
  return all;
}

// Wall time, for the figures of speed and for progress; nothing that is decided depends on it.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

constexpr double kProgressSeconds = 5;

int fail(const std::string& message) {
  std::cerr << "pace sim: " << message << "\n";
  return kExitUsage;
}

// Seconds, or a date with an optional time.
Result<Duration> parse_time(const std::string& text) {
  const std::string with_time = text.size() == 10 && text[4] == '-' ? text + " 00:00:00" : text;
  if (const auto seconds = sim::parse_timestamp(with_time)) return Duration::seconds(*seconds);
  try {
    size_t used = 0;
    const int64_t seconds = std::stoll(text, &used);
    if (used == text.size()) return Duration::seconds(seconds);
  } catch (const std::exception&) {
  }
  return Failure{ErrorCode::InvalidArgument,
                 str("'", text, "' is no time; write seconds or 2017-10-02 [hh:mm:ss]")};
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Failure{ErrorCode::NotFound, str("cannot read ", path)};
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Result<sim::Trace> read_trace_file(const SimOptions& options) {
  sim::TraceWindow window;
  if (!options.from.empty()) {
    TRY_ASSIGN(window.from, parse_time(options.from));
  }
  if (!options.until.empty()) {
    TRY_ASSIGN(window.until, parse_time(options.until));
  }
  std::ifstream file(options.trace_file);
  if (!file) return Failure{ErrorCode::NotFound, str("cannot read ", options.trace_file)};
  auto trace = sim::read_trace(file, window);
  if (!trace)
    return Failure{trace.error().code, str(options.trace_file, ": ", trace.error().message)};
  return trace;
}

double percentile(const std::vector<double>& sorted, size_t percent) {
  if (sorted.empty()) return 0;
  return sorted[std::max<size_t>((sorted.size() * percent + 99) / 100, 1) - 1];
}

sched::StopCost stop_cost(const SimOptions& options) {
  sched::StopCost cost{.restart = Duration::seconds(options.restart_s)};
  if (options.checkpoint_every_s > 0)
    cost.checkpoint_every = Duration::seconds(options.checkpoint_every_s);
  return cost;
}

PolicyOutcome replay_with(const NamedPolicy& named, const ClusterFile& cluster,
                          const sim::Trace& trace, const SimOptions& options) {
  const sim::Foresight foresight = options.estimates == "perfect"   ? sim::Foresight::Perfect
                                   : options.estimates == "learned" ? sim::Foresight::Learned
                                                                    : sim::Foresight::Stated;
  sim::Replay replay(cluster.topology, cluster.queues, trace,
                     {.policy = named.policy, .foresight = foresight, .stop = stop_cost(options)});
  const Stopwatch total;
  double told = 0;
  std::vector<double> plan_us;
  while (true) {
    const Stopwatch one;
    if (!replay.step()) break;
    plan_us.push_back(one.seconds() * 1e6);
    if (options.is_quiet || total.seconds() - told < kProgressSeconds) continue;
    told = total.seconds();
    std::cerr << "pace sim: " << named.name << ": " << replay.ended_count() << " of "
              << trace.jobs.size() << " jobs ended, " << replay.waiting_count() << " wait, hour "
              << (replay.now() - Instant()).in_milliseconds() / 3'600'000 << "\n";
  }
  PolicyOutcome outcome{.policy = named.name,
                        .summary = sim::summary_of(replay, trace),
                        .digest = replay.digest(),
                        .refused = replay.bad_rows(),
                        .left_over = {},
                        .plans = replay.totals().plans,
                        .starts = replay.totals().starts,
                        .unfinished_plans = replay.totals().unfinished_plans,
                        .wall_s = total.seconds()};
  for (const auto& [index, why] : replay.left_over())
    outcome.left_over.emplace_back(trace.jobs[index].line, why);
  std::sort(plan_us.begin(), plan_us.end());
  outcome.plan_us_p50 = percentile(plan_us, 50);
  outcome.plan_us_p99 = percentile(plan_us, 99);
  outcome.plan_us_max = percentile(plan_us, 100);
  return outcome;
}

int simulate(const SimOptions& options) {
  const Result<std::string> text = read_file(options.cluster_file);
  if (!text) return fail(text.error().message);
  const Result<ClusterFile> cluster = parse_cluster_file(*text);
  if (!cluster) return fail(str(options.cluster_file, ": ", cluster.error().message));
  const Result<sim::Trace> trace = read_trace_file(options);
  if (!trace) return fail(trace.error().message);

  SimOutcome outcome{.trace_format = trace->format,
                     .jobs = trace->jobs.size(),
                     .outside_window = trace->outside_window,
                     .bad_rows = trace->bad_rows,
                     .policies = {}};
  for (const std::string& name : options.policies)
    for (const NamedPolicy& named : named_policies())
      if (name == named.name)
        outcome.policies.push_back(replay_with(named, *cluster, *trace, options));
  std::cout << (options.output == "json" ? json_of(outcome) : table_of(outcome));
  return kExitDone;
}

}  // namespace

void add_sim(CLI::App& app, Chosen& chosen) {
  CLI::App* verb = app.add_subcommand("sim", "Replays a workload on a cluster in virtual time");
  const auto options = std::make_shared<SimOptions>();  // lives as long as the parser
  std::vector<std::string> names;
  for (const NamedPolicy& named : named_policies()) names.emplace_back(named.name);
  verb->add_option("cluster", options->cluster_file, "nodes, topology and queues (YAML)")
      ->required();
  verb->add_option("workload", options->trace_file, "jobs (CSV: paceline, philly or openb)")
      ->required();
  verb->add_option("--policy", options->policies, "one or more, compared side by side")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  verb->add_option("--estimates", options->estimates, "run times that the scheduler knows")
      ->check(CLI::IsMember({"stated", "perfect", "learned"}));
  verb->add_option("--restart-s", options->restart_s, "what an evicted job's new start takes")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000}));
  verb->add_option("--checkpoint-every-s", options->checkpoint_every_s,
                   "work up to the last one survives an eviction; 0: none does")
      ->check(CLI::Range(int64_t{0}, int64_t{100'000'000}));
  verb->add_option("--from", options->from, "leave out jobs submitted before (seconds or date)");
  verb->add_option("--until", options->until, "leave out jobs submitted then or later");
  verb->add_option("-o,--output", options->output, "form of the result")
      ->check(CLI::IsMember({"table", "json"}));
  verb->add_flag("--quiet", options->is_quiet, "no progress on standard error");
  verb->callback([options, &chosen] { chosen = [options] { return simulate(*options); }; });
}

}  // namespace paceline::cli
