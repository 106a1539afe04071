// What `pace run` was asked for: its flags, checked, and as the JobSpec that they mean.
//
// torchrun's flags are taken, with dashes or underscores, so that `torchrun` becomes `pace run`.
// Those that have no meaning here (rendezvous: there is a controller instead) are noted and
// otherwise ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/model/job.h"
#include "live/fault/fault_spec.h"

namespace CLI {
class App;
}

namespace paceline::cli {

struct RunOptions {
  // As given; empty or 0: not given.
  std::string nodes;                // --nnodes: N or MIN:MAX
  std::string ranks_per_host_text;  // --nproc-per-node: N, auto or cpu
  uint32_t local_hosts = 0;
  uint32_t spare_hosts = 0;
  uint32_t min_ranks = 0;
  uint32_t micro_batches = 0;
  uint32_t max_restarts = 3;
  std::optional<uint64_t> seed;
  std::string spare_mode = "hot";
  std::string reduce = "exact";
  std::string recovery = "act";
  std::string poison = "stop";
  std::string join_timeout = "60s";
  std::string stop_grace_text = "10s";
  Duration stop_grace = Duration::seconds(10);  // completed from the text
  std::string time_limit_text;
  std::string checkpoint_directory;
  std::string checkpoint_every;  // a number of commits, or auto
  bool is_resuming = false;
  std::vector<std::string> fault_texts;
  std::string fault_file;
  std::string log_directory;
  std::string report_directory;
  std::string job_name;
  bool is_module = false;  // -m: the program is a Python module
  bool is_no_python = false;
  std::string runtime = "auto";  // paceline or none: whether the program uses libpaceline
  std::vector<std::string> command;

  // Made by complete().
  uint32_t hosts_min = 1;
  uint32_t hosts = 1;  // that work; spares come on top
  uint32_t ranks_per_host = 1;
  bool is_aware = true;  // the program uses libpaceline
  std::vector<fault::FaultSpec> faults;
  std::vector<std::string> program;    // [0] is an absolute path to an executable
  std::vector<std::string> ignored;    // flags that were given and mean nothing here
  std::string resume_from;             // the checkpoint that all ranks continue from; empty: none
  uint64_t checkpoint_generation = 1;  // of this run in its checkpoint directory
  std::vector<std::string> notes;      // lines for the user, before the run begins
  std::optional<Duration> time_limit;

  uint32_t ranks() const { return hosts * ranks_per_host; }
  uint32_t host_count() const { return hosts + spare_hosts; }
};

// Describes the flags to CLI11. `options` must outlive the parse.
void add_run_flags(CLI::App& run, RunOptions& options);

// Checks what was given and fills the second half. Errors are one line: value and remedy.
Status complete(RunOptions& options);

// REQUIRES: complete() succeeded.
JobSpec job_spec_of(const RunOptions& options);

}  // namespace paceline::cli
