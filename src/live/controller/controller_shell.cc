#include "live/controller/controller_shell.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <variant>
#include <vector>

#include "base/str.h"
#include "live/checkpoint/checkpoint_directory.h"
#include "live/os/clock.h"

namespace paceline::controller {
namespace {

constexpr const char* kCoreTimer = "controller.core";
constexpr const char* kEndTimer = "controller.end";
// For agents to take their Shutdown, then for watchers to read the end.
constexpr Duration kLingerLimit = Duration::seconds(2);
constexpr Duration kCloseLimit = Duration::seconds(1);
constexpr const char* kWatchTimer = "controller.watch";
// What agents report at about the same time makes events that wait for each other.
// As often as people can read. What is no measurement goes out at once.
constexpr Duration kWatchDelay = Duration::milliseconds(250);
constexpr size_t kMostUntold = 1000;
constexpr size_t kMostInMessage = 100;  // far below what one may be long

// Comes all the time while a job runs, and nobody acts upon it.
bool is_measurement(const JobEvent& event) {
  return std::holds_alternative<JobProgress>(event) ||
         std::holds_alternative<TurnCommitted>(event) || std::holds_alternative<RankMetric>(event);
}

}  // namespace

ControllerShell::ControllerShell(os::Loop& loop, std::unique_ptr<StateMachine> machine)
    : loop_(loop), machine_(std::move(machine)) {}

ControllerShell::~ControllerShell() {
  loop_.disarm(kCoreTimer);
  loop_.disarm(kEndTimer);
  loop_.disarm(kWatchTimer);
}

Result<std::unique_ptr<ControllerShell>> ControllerShell::open(
    os::Loop& loop, const Options& options, std::unique_ptr<StateMachine> machine) {
  std::unique_ptr<ControllerShell> shell(new ControllerShell(loop, std::move(machine)));
  // What arrives from now on waits for the loop, which does not run before all is restored.
  TRY_ASSIGN(shell->server_, rpc::ControllerServer::listen(loop, options.address, *shell));
  TRY_ASSIGN(shell->journal_, store::Journal::open(options.journal_path));
  TRY(shell->restore());
  return shell;
}

Status ControllerShell::restore() {
  TRY_ASSIGN(const std::vector<control::JournalRecord> records, journal_->load());
  if (records.empty()) return {};
  for (const control::JournalRecord& record : records) {
    note_restored(record);
    machine_->restore(record);
  }
  step(control::Restarted{});
  return outcome_;
}

void ControllerShell::note_restored(const control::JournalRecord& record) {
  if (const auto* submitted = std::get_if<control::JobSubmitted>(&record)) {
    if (!job_) job_ = submitted->spec;  // the first: as it was asked for
  } else if (const auto* named = std::get_if<control::HostNamed>(&record)) {
    hosts_.emplace(named->name, named->host);
  } else if (const auto* changed = std::get_if<IncidentChanged>(&record)) {
    board_.note(*changed);  // its watchers may not have heard of it before the restart
  } else if (const auto* finished = std::get_if<control::JobFinished>(&record)) {
    // The machine told it once, in its earlier life; who did not hear it asks again now.
    board_.note(JobEnded{.verdict = finished->verdict,
                         .exit_code = finished->exit_code,
                         .reason = "ended before the controller was restarted",
                         .state_digest = finished->state_digest,
                         .step = finished->step});
  }
}

const std::string& ControllerShell::address() const { return server_->address(); }

// --- The one way of every event

void ControllerShell::step(const control::Event& event) {
  if (has_ended_) return;
  machine_->step(os::now(), event);
  carry_out();
}

void ControllerShell::carry_out() {
  const control::Effects effects = machine_->take_effects();
  const Status appended = journal_->append(effects.journal);
  if (!appended) return end(appended);
  for (const control::SendHost& send : effects.sends) {
    const auto stream = stream_of_host_.find(send.host);
    // The machine sends what is desired again when the host connects.
    if (stream != stream_of_host_.end()) server_->send(stream->second, send.command);
  }
  tell_watchers(effects.watch);
  arm_timer();
  end_when_quiet();
  if (effects.find_checkpoint) find_checkpoint(*effects.find_checkpoint);
}

void ControllerShell::find_checkpoint(const std::string& directory) {
  const std::vector<checkpoint::Entry> entries = checkpoint::list(directory);
  if (entries.empty()) return step(control::CheckpointFound{});
  const checkpoint::Manifest& newest = entries.front().manifest;
  step(control::CheckpointFound{
      .path = entries.front().path, .step = newest.step, .committed = newest.order.committed});
}

void ControllerShell::tell_watchers(const std::vector<JobEvent>& events) {
  if (events.empty()) return;
  for (const JobEvent& event : events) board_.note(event);
  if (watchers_.empty()) return;
  if (untold_.empty())
    loop_.arm(kWatchTimer, os::now() + kWatchDelay, [this] { send_to_watchers(); });
  untold_.insert(untold_.end(), events.begin(), events.end());
  const bool can_wait = std::all_of(events.begin(), events.end(), is_measurement);
  if (!can_wait || untold_.size() >= kMostUntold) send_to_watchers();
}

void ControllerShell::send_to_watchers() {
  loop_.disarm(kWatchTimer);
  if (untold_.empty()) return;
  for (const rpc::StreamId watcher : watchers_) send_all(watcher, untold_);
  untold_.clear();
}

void ControllerShell::send_all(rpc::StreamId watcher, std::span<const JobEvent> events) {
  while (!events.empty()) {
    const size_t count = std::min(events.size(), kMostInMessage);
    server_->send(watcher, events.first(count));
    events = events.subspan(count);
  }
}

void ControllerShell::arm_timer() {
  const std::optional<Instant> deadline = machine_->next_deadline();
  if (!deadline) return loop_.disarm(kCoreTimer);
  loop_.arm(kCoreTimer, *deadline, [this] { step(control::Tick{}); });
}

// --- Agents

void ControllerShell::agent_opened(rpc::StreamId stream) { agents_.insert(stream); }

void ControllerShell::agent_said(rpc::StreamId stream, HostEvent event) {
  if (!agents_.contains(stream)) return;
  const auto* const hello = std::get_if<AgentHello>(&event);
  const auto known = host_of_stream_.find(stream);
  if ((hello != nullptr) == (known != host_of_stream_.end())) {
    // A second hello, or something else before the first.
    server_->close(stream);
    return agent_closed(stream);
  }
  if (hello != nullptr) return host_connected(stream, *hello);
  step(control::HostSaid{.host = known->second, .event = std::move(event)});
}

void ControllerShell::host_connected(rpc::StreamId stream, const AgentHello& hello) {
  const std::optional<HostId> host = host_of(hello.host_name);
  if (!host) return;
  const auto earlier = stream_of_host_.find(*host);
  if (earlier != stream_of_host_.end()) {
    // The agent has connected again before the loss of its old stream was seen.
    const rpc::StreamId old = earlier->second;
    server_->close(old);
    agent_closed(old);
  }
  has_had_agents_ = true;
  stream_of_host_.insert_or_assign(*host, stream);
  host_of_stream_.emplace(stream, *host);
  step(control::HostConnected{.host = *host, .hello = hello});
}

std::optional<HostId> ControllerShell::host_of(const std::string& name) {
  const auto found = hosts_.find(name);
  if (found != hosts_.end()) return found->second;
  const HostId host(static_cast<uint32_t>(hosts_.size()));
  const std::vector<control::JournalRecord> records = {
      control::HostNamed{.host = host, .name = name}};
  const Status appended = journal_->append(records);
  if (!appended) {
    end(appended);
    return std::nullopt;
  }
  hosts_.emplace(name, host);
  return host;
}

void ControllerShell::agent_closed(rpc::StreamId stream) {
  if (agents_.erase(stream) == 0) return;
  const auto found = host_of_stream_.find(stream);
  if (found != host_of_stream_.end()) {
    const HostId host = found->second;
    host_of_stream_.erase(found);
    stream_of_host_.erase(host);
    step(control::HostDisconnected{.host = host});
  }
  end_when_quiet();
}

// --- Watchers and commands

void ControllerShell::watcher_opened(rpc::StreamId stream) {
  send_to_watchers();  // what is contains it
  watchers_.insert(stream);
  send_all(stream, board_.what_is());
  if (is_closing_) server_->close(stream);
}

void ControllerShell::watcher_closed(rpc::StreamId stream) {
  watchers_.erase(stream);
  if (is_closing_ && watchers_.empty()) end({});
}

Status ControllerShell::submit(JobSpec spec) {
  if (spec.program.arguments.empty() || spec.hosts_min == 0 || spec.ranks() == 0)
    return Failure{ErrorCode::InvalidArgument, "a job needs a program, a host and a rank"};
  // As the journal has it, so that the same request is known again after a restart.
  if (spec.micro_batches == 0) spec.micro_batches = spec.ranks();
  if (job_.has_value()) {
    if (*job_ == spec) return {};
    return Failure{ErrorCode::Refused, str("this controller already has job ", job_->name)};
  }
  job_ = spec;
  step(control::Submit{.spec = std::move(spec)});
  return outcome_;
}

Status ControllerShell::stop(bool is_immediate) {
  if (!job_.has_value()) {
    close_watchers();
  } else {
    step(control::StopRequested{.is_immediate = is_immediate});
  }
  return outcome_;
}

Status ControllerShell::set_recovery(RecoveryMode mode, std::string scope) {
  step(control::RecoveryModeSet{.mode = mode, .scope = std::move(scope)});
  return outcome_;
}

// --- The end

void ControllerShell::request_stop() {
  const Status stopped = stop(std::exchange(has_stop_signal_, true));
  if (!stopped) std::fprintf(stderr, "controller: %s\n", stopped.error().message.c_str());
}

void ControllerShell::end_when_quiet() {
  if (has_ended_ || !machine_->is_finished()) return;
  // A controller that was restarted after the end of its job waits for those who have not heard.
  const bool is_quiet = has_had_agents_ && agents_.empty();
  if (is_quiet || is_closing_) return close_watchers();
  if (!is_lingering_) loop_.arm(kEndTimer, os::now() + kLingerLimit, [this] { close_watchers(); });
  is_lingering_ = true;
}

void ControllerShell::close_watchers() {
  if (!is_closing_) loop_.arm(kEndTimer, os::now() + kCloseLimit, [this] { end({}); });
  is_closing_ = true;
  send_to_watchers();
  for (const rpc::StreamId watcher : watchers_) server_->close(watcher);
  if (watchers_.empty()) end({});
}

void ControllerShell::end(Status outcome) {
  if (has_ended_) return;
  has_ended_ = true;
  outcome_ = std::move(outcome);
  if (!outcome_) std::fprintf(stderr, "controller: %s\n", outcome_.error().message.c_str());
  loop_.disarm(kCoreTimer);
  loop_.disarm(kEndTimer);
  loop_.stop();
}

}  // namespace paceline::controller
