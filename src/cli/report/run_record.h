// RunRecord: all that a report says of a run, gathered from what a watcher of the job is told.
//
// A controller that was restarted repeats what is: a record takes the same event twice without
// counting twice. Times are the machine's CLOCK_MONOTONIC, and the report counts from `began`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/model/incident.h"

namespace paceline::cli {

// A fault of a game day that has struck. What the injector knows; the job does not.
struct InjectedFault {
  std::string kind;
  std::string text;  // as it was written
  std::optional<RankId> rank;
  std::string host_name;  // of the rank, if known
  bool is_whole_host = false;
  Instant at;
  Step step;
};

// A committed turn, as it was measured.
struct TurnRecord {
  Step step;
  EpochNumber epoch;
  Instant at;
  uint32_t micro_batches = 0;
  bool is_flagged = false;
  uint32_t skipped = 0;
  Duration compute, wait;
};

// A controller that was started while the job ran, in place of one that had ended.
struct LaterController {
  Instant started;                 // its process
  std::optional<Instant> adopted;  // when it first told of a commit
};

class RunRecord {
 public:
  // `began`: when the user asked for the run.
  RunRecord(std::string job_name, Instant began) : job_name_(std::move(job_name)), began_(began) {}

  void take(Instant now, const JobEvent& event);
  void take(const InjectedFault& fault) { faults_.push_back(fault); }
  void take_controller(Instant started);
  // Of the process that reports; what JobEnded says unless the user interrupted.
  void set_exit_code(int code) { exit_code_ = code; }

  // Where the threads of a rank were when its agent had to end it, a line each; often none.
  std::vector<std::string> threads_of(RankId rank) const {
    const auto found = threads_.find(rank);
    return found == threads_.end() ? std::vector<std::string>{} : found->second;
  }
  const std::string& job_name() const { return job_name_; }
  Instant began() const { return began_; }
  Instant ended() const { return ended_.value_or(last_event_); }
  int exit_code() const { return exit_code_; }
  const JobStarted& world() const { return world_; }
  const std::optional<JobEnded>& end() const { return end_; }
  const std::map<uint64_t, TurnRecord>& turns() const { return turns_; }
  const std::map<uint32_t, Incident>& incidents() const { return incidents_; }
  const std::vector<InjectedFault>& faults() const { return faults_; }
  const std::vector<LaterController>& later_controllers() const { return later_controllers_; }
  const std::optional<Goodput>& goodput() const { return goodput_; }
  // name -> (step, value), in order of steps; the value that came last for a step counts.
  const std::map<std::string, std::map<uint64_t, double>>& metrics() const { return metrics_; }
  const std::map<HostId, std::string>& host_names() const { return host_names_; }
  const std::vector<std::pair<Instant, JobProgress>>& progress() const { return progress_; }

  uint64_t steps_repeated() const { return steps_repeated_; }

  // The fault that an incident answers: the same rank (or host), struck before it was detected and
  // not answered by an earlier incident. By incident id.
  std::map<uint32_t, InjectedFault> matched_faults() const;

 private:
  void take_turn(const TurnCommitted& turn);
  void take_threads(const OutputLine& output);
  bool answers(const Incident& incident, const InjectedFault& fault) const;

  std::string job_name_;
  Instant began_;
  Instant last_event_;
  std::optional<Instant> ended_;
  int exit_code_ = 0;
  JobStarted world_;
  std::optional<JobEnded> end_;
  std::map<uint64_t, TurnRecord> turns_;
  std::map<uint32_t, Incident> incidents_;
  std::vector<InjectedFault> faults_;
  std::vector<LaterController> later_controllers_;
  bool has_later_stream_ = false;  // what comes is told by the last of them
  std::optional<Goodput> goodput_;
  std::map<std::string, std::map<uint64_t, double>> metrics_;
  std::map<HostId, std::string> host_names_;
  std::map<RankId, std::vector<std::string>> threads_;
  std::vector<std::pair<Instant, JobProgress>> progress_;
  uint64_t steps_repeated_ = 0;
};

// Names as the report writes them.
const char* name_of(IncidentKind kind);
const char* name_of(HangClass hang_class);
const char* name_of(ActionKind action);
const char* name_of(Verdict verdict);

}  // namespace paceline::cli
