#include "cli/report/run_record.h"

#include <algorithm>
#include <string_view>

namespace paceline::cli {
namespace {

// A run of weeks keeps a bounded record: old turns and samples of progress are thinned by dropping
// the oldest. The counts in the report come from counters that are not dropped.
constexpr size_t kMaxTurns = 2'000'000;
constexpr size_t kMaxProgress = 100'000;
constexpr size_t kMaxMetricNames = 64;
constexpr size_t kMaxControllers = 10'000;
constexpr size_t kMaxRanksWithThreads = 1000;
constexpr size_t kMaxThreads = 64;
constexpr size_t kMaxMetricValues = 1'000'000;

}  // namespace

void RunRecord::take(Instant now, const JobEvent& event) {
  last_event_ = std::max(last_event_, now);
  if (const auto* started = std::get_if<JobStarted>(&event)) {
    world_ = *started;
    has_later_stream_ = !later_controllers_.empty();
  } else if (const auto* turn = std::get_if<TurnCommitted>(&event)) {
    take_turn(*turn);
    if (has_later_stream_ && !later_controllers_.back().adopted)
      later_controllers_.back().adopted = now;
  } else if (const auto* changed = std::get_if<IncidentChanged>(&event)) {
    incidents_[changed->incident.id] = changed->incident;
  } else if (const auto* output = std::get_if<OutputLine>(&event)) {
    take_threads(*output);
  } else if (const auto* placed = std::get_if<RankPlaced>(&event)) {
    host_names_[placed->host] = placed->host_name;
  } else if (const auto* metric = std::get_if<RankMetric>(&event)) {
    if (metrics_.size() >= kMaxMetricNames && !metrics_.contains(metric->name)) return;
    auto& values = metrics_[metric->name];
    if (values.size() < kMaxMetricValues) values[metric->step.value()] = metric->value;
  } else if (const auto* goodput = std::get_if<Goodput>(&event)) {
    goodput_ = *goodput;
  } else if (const auto* progress = std::get_if<JobProgress>(&event)) {
    if (progress_.size() < kMaxProgress) progress_.emplace_back(now, *progress);
  } else if (const auto* ended = std::get_if<JobEnded>(&event)) {
    if (!end_) ended_ = now;
    end_ = *ended;
    exit_code_ = ended->exit_code;
  }
}

void RunRecord::take_threads(const OutputLine& output) {
  constexpr std::string_view kPrefix = kEvidencePrefix;
  if (!output.text.starts_with(kPrefix)) return;
  if (threads_.size() >= kMaxRanksWithThreads && !threads_.contains(output.rank)) return;
  std::vector<std::string>& lines = threads_[output.rank];
  if (lines.size() < kMaxThreads) lines.push_back(output.text.substr(kPrefix.size()));
}

// Each stream of a watch begins with JobStarted: so does what the new controller tells.
void RunRecord::take_controller(Instant started) {
  if (world_.ranks == 0 || later_controllers_.size() >= kMaxControllers) return;
  later_controllers_.push_back({.started = started, .adopted = {}});
  has_later_stream_ = false;
}

void RunRecord::take_turn(const TurnCommitted& turn) {
  const auto known = turns_.find(turn.turn.value());
  // A turn that is committed again in a later epoch: the job was rolled back to a checkpoint.
  if (known != turns_.end() && !turn.is_flagged && known->second.epoch < turn.epoch)
    ++steps_repeated_;
  if (known == turns_.end() && !turn.is_flagged && !turns_.empty()) {
    // Turns only rise; a step that comes again under a later turn has been rolled back and redone.
    const auto& [last_turn, last] = *turns_.rbegin();
    if (turn.turn.value() > last_turn && !last.is_flagged && turn.step <= last.step)
      ++steps_repeated_;
  }
  // Told again by a restarted controller, perhaps with fewer of its samples.
  const bool is_repeated = known != turns_.end() && known->second.epoch == turn.epoch;
  if (is_repeated && known->second.micro_batches >= turn.micro_batches) return;
  turns_[turn.turn.value()] = {.step = turn.step,
                               .epoch = turn.epoch,
                               .at = turn.at,
                               .micro_batches = turn.micro_batches,
                               .is_flagged = turn.is_flagged,
                               .skipped = turn.skipped,
                               .compute = turn.compute,
                               .wait = turn.wait};
  if (turns_.size() > kMaxTurns) turns_.erase(turns_.begin());
}

bool RunRecord::answers(const Incident& incident, const InjectedFault& fault) const {
  if (fault.at > incident.detected) return false;
  if (fault.kind == "kill-controller") return false;  // its rank only says when
  // Struck at the donor, noticed by the joiner.
  const bool is_corruption = incident.kind == IncidentKind::Corruption;
  if (is_corruption || fault.kind == "corrupt") return is_corruption && fault.kind == "corrupt";
  if (incident.rank && fault.rank && !fault.is_whole_host) return *incident.rank == *fault.rank;
  if (!fault.is_whole_host) return false;
  if (incident.host) {
    const auto name = host_names_.find(*incident.host);
    if (name != host_names_.end()) return name->second == fault.host_name;
  }
  return incident.rank && fault.rank && incident.rank->slot == fault.rank->slot;
}

std::map<uint32_t, InjectedFault> RunRecord::matched_faults() const {
  std::map<uint32_t, InjectedFault> matched;
  std::vector<bool> is_taken(faults_.size(), false);
  for (const auto& [id, incident] : incidents_) {
    for (size_t i = 0; i < faults_.size(); ++i) {
      if (is_taken[i] || !answers(incident, faults_[i])) continue;
      is_taken[i] = true;
      matched.emplace(id, faults_[i]);
      break;
    }
  }
  return matched;
}

const char* name_of(IncidentKind kind) {
  switch (kind) {
    case IncidentKind::Crash:
      return "crash";
    case IncidentKind::HostLost:
      return "host_lost";
    case IncidentKind::Hang:
      return "hang";
    case IncidentKind::Straggler:
      return "straggler";
    case IncidentKind::SlowLink:
      return "slow_link";
    case IncidentKind::Corruption:
      return "corruption";
    case IncidentKind::Poison:
      return "poison";
    case IncidentKind::Imbalance:
      return "imbalance";
    case IncidentKind::DeadPath:
      return "dead_path";
    case IncidentKind::Unknown:
      break;
  }
  return "unknown";
}

const char* name_of(HangClass hang_class) {
  switch (hang_class) {
    case HangClass::Stopped:
      return "stopped";
    case HangClass::NeverEntered:
      return "never_entered";
    case HangClass::Mismatched:
      return "mismatched";
    case HangClass::Stuck:
      return "stuck";
    case HangClass::Traced:
      return "traced";
    case HangClass::None:
      break;
  }
  return "none";
}

const char* name_of(ActionKind action) {
  switch (action) {
    case ActionKind::Wait:
      return "wait";
    case ActionKind::Rebalance:
      return "rebalance";
    case ActionKind::RestartInPlace:
      return "restart_in_place";
    case ActionKind::Shrink:
      return "shrink";
    case ActionKind::SwapSpare:
      return "swap_spare";
    case ActionKind::RollBack:
      return "roll_back";
    case ActionKind::IsolateHost:
      return "isolate_host";
    case ActionKind::Stop:
      return "stop";
    case ActionKind::Skip:
      return "skip";
  }
  return "unknown";
}

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::Completed:
      return "completed";
    case Verdict::Failed:
      return "failed";
    case Verdict::Stopped:
      return "stopped";
  }
  return "unknown";
}

}  // namespace paceline::cli
