#include "cli/run_options.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "base/str.h"
#include "cli/recovery_mode.h"
#include "cli/run_checkpoints.h"
#include "cli/run_program.h"

namespace paceline::cli {
namespace {

constexpr uint32_t kMaxLocalHosts = 64;  // processes and loopback addresses of one machine

Error usage(const std::string& what, const std::string& remedy) {
  return {ErrorCode::InvalidArgument, what + "; " + remedy};
}

std::optional<uint32_t> number_in(std::string_view text) {
  uint32_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void add_shape_flags(CLI::App& run, RunOptions& options) {
  run.add_option("--local", options.local_hosts, "hosts on this machine, each with its own agent");
  run.add_option("--nnodes", options.nodes, "hosts: N, or MIN:MAX");
  run.add_option("--nproc-per-node,--nproc_per_node", options.ranks_per_host_text,
                 "ranks on each host: N, auto or cpu (default 1)");
  run.add_option("--spares", options.spare_hosts, "hosts that stand by");
  run.add_option("--spare-mode,--spare_mode", options.spare_mode,
                 "hot (members without work) or cold (hosts without processes, until needed)")
      ->check(CLI::IsMember({"hot", "cold"}));
  run.add_option("--min-ranks,--min_ranks", options.min_ranks, "go on with so few ranks");
  run.add_option("--micro-batches,--micro_batches", options.micro_batches,
                 "V: micro-batches of each step, whoever computes them (default: one per rank)");
  run.add_option("--reduce", options.reduce, "exact (the same bits whatever happens) or fast")
      ->check(CLI::IsMember({"exact", "fast"}));
  run.add_option("--seed", options.seed, "of the job (default: the program's own)");
  run.add_option("--name,--rdzv-id,--rdzv_id", options.job_name, "of the job, in the report");
  run.add_option("--runtime", options.runtime,
                 "paceline or none: whether the program uses libpaceline (default auto: looks)")
      ->check(CLI::IsMember({"auto", "paceline", "none"}));
}

void add_recovery_flags(CLI::App& run, RunOptions& options) {
  run.add_option("--max-restarts,--max_restarts", options.max_restarts,
                 "of one rank without progress in between (default 3)");
  run.add_option("--recovery", options.recovery,
                 "act, observe or off: what may be done to ranks that still work")
      ->check(CLI::IsMember({"act", "observe", "off"}));
  run.add_option("--poison", options.poison,
                 "stop or skip: a micro-batch that ends every rank that computes it")
      ->check(CLI::IsMember({"stop", "skip"}));
  run.add_option("--join-timeout,--join_timeout", options.join_timeout,
                 "for all hosts to appear, such as 60s");
  run.add_option("--time-limit,--time_limit", options.time_limit_text,
                 "stop in order after so long, such as 2h, 30m or 90s");
  run.add_option("--stop-grace,--stop_grace", options.stop_grace_text,
                 "from SIGTERM to SIGKILL for a program without libpaceline (default 10s)");
  run.add_option("--checkpoint-dir,--checkpoint_dir", options.checkpoint_directory,
                 "where checkpoints are kept");
  run.add_option("--checkpoint-every,--checkpoint_every", options.checkpoint_every,
                 "commits between checkpoints, or auto");
  run.add_flag("--resume", options.is_resuming, "continue from the newest checkpoint");
}

void add_output_flags(CLI::App& run, RunOptions& options) {
  run.add_option("--fault", options.fault_texts,
                 "break something: KIND@step=S:rank=R[,name=value], repeatable")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  run.add_option("--faults", options.fault_file, "a file with one fault a line");
  run.add_option("--log-dir,--log_dir", options.log_directory, "a log file for every rank");
  run.add_option("--report", options.report_directory,
                 "writes report.json, report.html and steps.csv there");
}

// torchrun's flags that describe how ranks find each other, or how Python is started.
void add_torchrun_flags(CLI::App& run, RunOptions& options) {
  for (const char* name :
       {"--rdzv-backend,--rdzv_backend", "--rdzv-endpoint,--rdzv_endpoint",
        "--rdzv-conf,--rdzv_conf", "--node-rank,--node_rank", "--master-addr,--master_addr",
        "--master-port,--master_port", "--local-addr,--local_addr",
        "--monitor-interval,--monitor_interval", "--start-method,--start_method", "--role",
        "-r,--redirects", "-t,--tee"}) {
    const std::string flag = std::string(name).substr(0, std::string(name).find(','));
    run.add_option_function<std::string>(
           name, [&options, flag](const std::string&) { options.ignored.push_back(flag); },
           "of torchrun; not needed")
        ->group("");
  }
  run.add_flag_function(
         "--standalone", [&options](int64_t) { options.ignored.push_back("--standalone"); },
         "of torchrun; not needed")
      ->group("");
  run.add_flag("-m,--module", options.is_module, "the program is a Python module");
  run.add_flag("--no-python,--no_python", options.is_no_python,
               "run a .py file as it is, not with Python");
}

Status complete_hosts(RunOptions& options) {
  options.hosts = std::max(options.local_hosts, 1u);
  options.hosts_min = 1;
  if (!options.nodes.empty()) {
    const size_t colon = options.nodes.find(':');
    const auto low = number_in(std::string_view(options.nodes).substr(0, colon));
    const auto high = colon == std::string::npos ? low : number_in(options.nodes.substr(colon + 1));
    if (!low || !high || *low < 1 || *low > *high)
      return usage(str("--nnodes ", options.nodes, " is neither N nor MIN:MAX"),
                   "write --nnodes 4 or --nnodes 2:4");
    if (options.local_hosts != 0 && options.local_hosts != *high)
      return usage(str("--nnodes ", options.nodes, " and --local ", options.local_hosts,
                       " name different numbers of hosts"),
                   "give one of them");
    options.hosts = *high;
    options.hosts_min = colon == std::string::npos ? 1 : *low;
  }
  if (options.spare_mode == "cold" && options.spare_hosts == 0)
    return usage("--spare-mode cold has no spares to be cold", "add --spares K");
  if (options.host_count() > kMaxLocalHosts)
    return usage(str("--local ", options.hosts, " and --spares ", options.spare_hosts,
                     " are more than ", kMaxLocalHosts, " hosts on one machine"),
                 "use --nproc-per-node for more ranks");
  return {};
}

Status complete_ranks(RunOptions& options) {
  const std::string& text = options.ranks_per_host_text;
  if (text.empty()) {
    options.ranks_per_host = 1;
  } else if (text == "auto" || text == "cpu") {
    options.ranks_per_host = std::max(std::thread::hardware_concurrency(), 1u);
  } else {
    const auto count = number_in(text);
    if (!count || *count < 1)
      return usage(str("--nproc-per-node ", text, " is no number of ranks"),
                   "write a number, auto or cpu");
    options.ranks_per_host = *count;
  }
  if (options.ranks_per_host > kMaxRanks / options.host_count())
    return usage(str("--nproc-per-node ", options.ranks_per_host, " on ", options.host_count(),
                     " hosts is more than ", kMaxRanks, " ranks"),
                 "use fewer");
  if (options.min_ranks > options.ranks())
    return usage(str("--min-ranks ", options.min_ranks, " is more than the ", options.ranks(),
                     " ranks of the job"),
                 str("use ", options.ranks(), " or fewer"));
  if (options.min_ranks != 0)
    options.hosts_min = (options.min_ranks + options.ranks_per_host - 1) / options.ranks_per_host;
  if (options.micro_batches > kMaxMicroBatches)
    return usage(str("--micro-batches ", options.micro_batches, " is more than ", kMaxMicroBatches),
                 "use fewer and larger ones");
  if (options.micro_batches != 0 && options.micro_batches < options.ranks())
    return usage(str("--micro-batches ", options.micro_batches, " is fewer than the ",
                     options.ranks(), " ranks, so some would have nothing to do"),
                 str("use ", options.ranks(), " or more, or fewer ranks"));
  return {};
}

Status complete_faults(RunOptions& options) {
  options.faults.clear();
  for (const std::string& text : options.fault_texts) {
    TRY_ASSIGN(fault::FaultSpec fault, fault::parse_fault(text));
    options.faults.push_back(std::move(fault));
  }
  if (!options.fault_file.empty()) {
    std::ifstream file(options.fault_file);
    std::stringstream text;
    text << file.rdbuf();
    if (!file)
      return usage(str("--faults ", options.fault_file, " cannot be read"), "check the path");
    Result<std::vector<fault::FaultSpec>> faults = fault::parse_fault_lines(text.str());
    if (!faults)
      return Failure{faults.error().code, options.fault_file + ": " + faults.error().message};
    std::move(faults->begin(), faults->end(), std::back_inserter(options.faults));
  }
  // A slot of a spare host takes a number after those of the working ones.
  const uint32_t slots = options.host_count() * options.ranks_per_host;
  for (const fault::FaultSpec& fault : options.faults)
    if (fault.rank.value_or(0) >= slots)
      return usage(str("fault '", fault.text, "': there is no rank ", *fault.rank),
                   str("ranks are 0 to ", slots - 1));
  return {};
}

// Made if it is missing. Its being writable is found out now rather than at the end of the run.
Status check_writable(const std::string& flag, const std::string& directory) {
  if (directory.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error || ::access(directory.c_str(), W_OK | X_OK) != 0)
    return usage(str(flag, " ", directory, " cannot be written",
                     error ? str(" (", error.message(), ")") : std::string()),
                 "name a directory that you may write");
  return {};
}

Status complete_checkpoints(RunOptions& options) {
  if (options.checkpoint_directory.empty()) {
    if (options.is_resuming)
      return usage("--resume needs a place to continue from", "add --checkpoint-dir DIR");
    if (!options.checkpoint_every.empty())
      return usage("--checkpoint-every needs a place for them", "add --checkpoint-dir DIR");
    return {};
  }
  if (!options.checkpoint_every.empty() && options.checkpoint_every != "auto" &&
      number_in(options.checkpoint_every).value_or(0) == 0)
    return usage(str("--checkpoint-every ", options.checkpoint_every, " is no number of commits"),
                 "write a number of 1 or more, or auto");
  TRY(check_writable("--checkpoint-dir", options.checkpoint_directory));
  return choose_checkpoint(options);
}

// "90" and "90s", "500ms", "30m", "2h".
std::optional<Duration> duration_in(const std::string& text) {
  constexpr std::pair<std::string_view, Duration> kUnits[] = {{"ms", Duration::milliseconds(1)},
                                                              {"s", Duration::seconds(1)},
                                                              {"m", Duration::seconds(60)},
                                                              {"h", Duration::seconds(3600)},
                                                              {"", Duration::seconds(1)}};
  for (const auto& [unit, one] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const auto count = number_in(std::string_view(text).substr(0, text.size() - unit.size()));
    if (!count) return std::nullopt;
    return Duration::nanoseconds(*count * one.in_nanoseconds());
  }
  return std::nullopt;
}

Status complete_durations(RunOptions& options) {
  if (!duration_in(options.join_timeout))
    return usage(str("--join-timeout ", options.join_timeout, " is no duration"),
                 "write 60s or 500ms");
  const std::optional<Duration> stop_grace = duration_in(options.stop_grace_text);
  if (!stop_grace)
    return usage(str("--stop-grace ", options.stop_grace_text, " is no duration"),
                 "write 10s or 2m; 0s ends ranks at once");
  options.stop_grace = *stop_grace;
  if (options.time_limit_text.empty()) return {};
  options.time_limit = duration_in(options.time_limit_text);
  if (!options.time_limit || *options.time_limit <= Duration())
    return usage(str("--time-limit ", options.time_limit_text, " is no duration"),
                 "write 2h, 30m or 90s");
  return {};
}

}  // namespace

void add_run_flags(CLI::App& run, RunOptions& options) {
  add_shape_flags(run, options);
  add_recovery_flags(run, options);
  add_output_flags(run, options);
  add_torchrun_flags(run, options);
  // Everything from the program's name on is the program's, whatever it looks like.
  run.add_option("program", options.command, "the program and its arguments")->expected(-1);
  run.positionals_at_end();
}

Status complete(RunOptions& options) {
  TRY(complete_hosts(options));
  TRY(complete_ranks(options));
  TRY(complete_faults(options));
  TRY(complete_durations(options));
  TRY_ASSIGN(options.program, find_program({.command = options.command,
                                            .is_module = options.is_module,
                                            .is_no_python = options.is_no_python}));
  options.is_aware = options.runtime == "paceline" ||
                     (options.runtime == "auto" && mentions_paceline(options.program));
  TRY(complete_checkpoints(options));
  TRY(check_writable("--log-dir", options.log_directory));
  return check_writable("--report", options.report_directory);
}

JobSpec job_spec_of(const RunOptions& options) {
  JobSpec spec;
  spec.name = options.job_name.empty()
                  ? std::filesystem::path(options.command.front()).filename().string()
                  : options.job_name;
  spec.program.arguments = options.program;
  std::error_code ignored;
  spec.program.working_directory = std::filesystem::current_path(ignored).string();
  spec.hosts_min = options.hosts_min;
  spec.hosts_max = options.hosts;
  spec.spare_hosts = options.spare_hosts;
  spec.has_hot_spares = options.spare_mode == "hot";
  spec.ranks_per_host = options.ranks_per_host;
  spec.micro_batches = options.micro_batches;
  spec.seed = options.seed.value_or(0);
  spec.reduce = options.reduce == "fast" ? ReduceMode::Fast : ReduceMode::Exact;
  spec.recovery = recovery_mode_of(options.recovery);
  spec.poison = options.poison == "skip" ? PoisonPolicy::Skip : PoisonPolicy::Stop;
  spec.is_aware = options.is_aware;
  spec.max_restarts = options.max_restarts;
  spec.join_timeout = duration_in(options.join_timeout).value_or(spec.join_timeout);
  spec.stop_grace = options.stop_grace;
  spec.checkpoint_directory = options.checkpoint_directory;
  spec.program.environment = checkpoint_environment(options);
  spec.checkpoint_every = number_in(options.checkpoint_every).value_or(0);
  return spec;
}

}  // namespace paceline::cli
