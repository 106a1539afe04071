#include "cli/run_session.h"

#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <random>
#include <utility>

#include "base/str.h"
#include "cli/exit_code.h"
#include "cli/report/report.h"
#include "cli/run_environment.h"
#include "live/checkpoint/checkpoint_directory.h"
#include "live/os/clock.h"
#include "live/rpc/endpoint.h"

namespace paceline::cli {
namespace {

constexpr Duration kConnectLimit = Duration::seconds(20);
// A controller may be away for as long as its disk is full; RunProcesses tells when it is lost.
constexpr Duration kWatchPatience = Duration::seconds(int64_t{365} * 24 * 3600);
constexpr Duration kEndLimit = Duration::seconds(4);  // for the daemons after JobEnded
constexpr Duration kImmediateLimit = Duration::seconds(3);
// For the step and its checkpoint, or for what a program without the library does on SIGTERM.
constexpr Duration kTimeLimitGrace = Duration::seconds(30);
constexpr Duration kStopMargin = Duration::seconds(5);
// On a terminal people watch the block; elsewhere only a long silence is broken.
constexpr Duration kRefreshInterval = Duration::milliseconds(200);
constexpr Duration kSilenceCheckInterval = Duration::seconds(1);
// A signal to a whole process group comes twice: directly, and passed on by the guard.
constexpr Duration kSameInterrupt = Duration::milliseconds(100);
constexpr size_t kMaxInterrupts = 8;  // further ones are not passed on

// Keeps other users of this machine out; 128 bits from the operating system.
std::string random_token() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 4; ++i) {
    char part[12];
    std::snprintf(part, sizeof(part), "%08x", static_cast<unsigned>(device()));
    token += part;
  }
  return token;
}

std::string fault_line(const fault::Struck& struck) {
  std::string line = str("fault: ", fault::name_of(struck.spec.kind));
  const bool is_of_host = struck.spec.kind == fault::FaultKind::LoseHost ||
                          struck.spec.kind == fault::FaultKind::KillAgent;
  if (is_of_host)
    line += str(" ", struck.host_name);
  else if (struck.spec.kind != fault::FaultKind::KillController && struck.rank)
    line += str(" rank ", struck.rank->slot, " (pid ", struck.process, ")");
  line += str(" at step ", struck.step);
  if (struck.phase != fault::FaultPhase::Any) line += str(", phase ", fault::name_of(struck.phase));
  if (!struck.failure.empty()) line += str(": failed, ", struck.failure);
  return line;
}

InjectedFault recorded(const fault::Struck& struck) {
  return {.kind = std::string(fault::name_of(struck.spec.kind)),
          .text = struck.spec.text,
          .rank = struck.rank,
          .host_name = struck.host_name,
          .is_whole_host = struck.spec.kind == fault::FaultKind::LoseHost ||
                           struck.spec.kind == fault::FaultKind::KillAgent,
          .at = struck.at,
          .step = Step(struck.step)};
}

}  // namespace

RunSession::RunSession(RunOptions options)
    : options_(std::move(options)),
      terminal_(Terminal::of_process()),
      view_(terminal_, os::now()),
      record_(job_spec_of(options_).name, os::now()) {}

RunSession::~RunSession() = default;

// Refused while hundreds of thousands wait, as when standard output is a pager that nobody turns.
// The posting thread waits then, so that the stream of events is held up and not the job.
void RunSession::post(const os::Loop::Function& function) {
  while (!loop_.post(function) && !is_over_.load(std::memory_order_relaxed))
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

int RunSession::run() {
  for (const std::string& flag : options_.ignored)
    view_.note(os::now(), Tone::Faint, str("pace: ", flag, " is not needed here and was ignored"));
  for (const std::string& text : options_.notes) view_.note(os::now(), Tone::Plain, text);
  const Status started = start();
  if (started)
    loop_.run();
  else
    fail(kExitNoController, started.error().message);

  // Threads first: nothing may post into, or read from, what goes next.
  is_over_.store(true, std::memory_order_relaxed);
  if (client_) client_->cancel_watch();
  injector_.reset();
  if (processes_) processes_->end_all();
  if (watching_.joinable()) watching_.join();
  for (std::thread& call : calling_) call.join();
  is_finishing_ = true;
  loop_.run_once(Duration());  // what they have posted last: the program's last lines

  const int code = exit_code();
  record_.set_exit_code(code);
  view_.finish(os::now());
  if (!options_.report_directory.empty()) {
    const Status written = write_report(record_, options_.report_directory);
    if (written)
      terminal_.line(Tone::Faint, str("pace: report in ", options_.report_directory));
    else
      terminal_.line(Tone::Bad, "pace: " + written.error().message);
  }
  return code;
}

Status RunSession::start() {
  watch_signals();
  arm_time_limit();
  TRY_ASSIGN(RunDirectory directory, RunDirectory::make());
  directory_.emplace(std::move(directory));
  const rpc::RpcAddress address{.address = rpc::random_local_address(), .token = random_token()};
  JobSpec spec = job_spec_of(options_);
  TRY_ASSIGN(auto environment, environment_of_ranks(options_));
  for (auto& variable : environment) spec.program.environment.push_back(std::move(variable));
  if (!options_.faults.empty()) TRY(start_injector(spec));
  processes_ = std::make_unique<RunProcesses>(
      loop_,
      RunProcesses::Options{.controller_address = address.address,
                            .token = address.token,
                            .journal = directory_->path() + "/journal.sqlite",
                            .hosts = options_.host_count(),
                            .log_directory = options_.log_directory},
      process_callbacks());
  TRY(processes_->start());
  TRY(directory_->tell_controller(address));
  TRY_ASSIGN(client_, rpc::ControllerClient::connect(address, kConnectLimit));
  watching_ = std::thread([this] {
    const Status status =
        client_->watch({.is_reconnecting = true, .patience = kWatchPatience},
                       [this](const JobEvent& event) { post([this, event] { on_event(event); }); });
    post([this, status] { on_watch_ended(status); });
  });
  TRY(client_->submit(spec));
  refresh();
  return {};
}

Status RunSession::start_injector(JobSpec& spec) {
  const std::string path = directory_->path() + "/game_day";
  TRY_ASSIGN(fault::GameDayFile game_day, fault::GameDayFile::open(path));
  spec.program.environment.emplace_back(fault::kGameDayVariable, path);
  injector_ = std::make_unique<fault::Injector>(
      options_.faults, std::move(game_day),
      [this](const fault::Struck& struck) { post([this, struck] { on_struck(struck); }); });
  return {};
}

RunProcesses::Callbacks RunSession::process_callbacks() {
  return {
      .on_agent =
          [this](const std::string& host_name, pid_t process) {
            if (injector_) injector_->agent_started(host_name, process);
          },
      .on_controller =
          [this](pid_t process) {
            record_.take_controller(os::now());
            if (injector_) injector_->controller_started(process);
          },
      .on_note =
          [this](const std::string& text) { view_.note(os::now(), Tone::Bad, "pace: " + text); },
      .on_lost = [this](const std::string& reason) { fail(kExitNoController, reason); },
      .on_all_ended =
          [this] {
            if (is_finishing_) loop_.stop();
          }};
}

void RunSession::watch_signals() {
  Result<os::SignalDescriptor> signals = os::SignalDescriptor::open({SIGINT, SIGTERM, SIGHUP});
  CHECK(signals.has_value(), "signal descriptor");
  signals_.emplace(std::move(signals).value());
  loop_.watch(signals_->descriptor(), EPOLLIN, [this](uint32_t) {
    for (const int signal : signals_->read()) on_signal(signal);
  });
}

void RunSession::on_signal(int signal) {
  if (!stop_code_) {
    stop_in_order(signal == SIGINT ? kExitInterrupted : kExitTerminated,
                  options_.is_aware ? "pace: stopping after this step; again to stop at once"
                                    : "pace: stopping; again to stop at once");
  } else if (os::now() - stopping_since_ >= kSameInterrupt) {
    stop_at_once();
  }
}

void RunSession::stop_in_order(int code, const std::string& text) {
  stop_code_ = code;
  stopping_since_ = os::now();
  view_.note(os::now(), Tone::Plain, text);
  ask_to_stop(false);
}

void RunSession::stop_at_once() {
  view_.note(os::now(), Tone::Plain, "pace: stopping at once");
  ask_to_stop(true);
  // A controller that is gone, or busy, cannot hold up someone who wants out.
  loop_.arm("stop at once", os::now() + kImmediateLimit, [this] { loop_.stop(); });
}

void RunSession::arm_time_limit() {
  if (!options_.time_limit) return;
  loop_.arm("time limit", os::now() + *options_.time_limit, [this] {
    if (stop_code_ || record_.end()) return;
    stop_in_order(kExitTimeLimit, str("pace: the time limit of ", options_.time_limit_text,
                                      " is reached; stopping"));
    // A step that hangs cannot hold up a limit.
    const Duration grace = std::max(kTimeLimitGrace, options_.stop_grace + kStopMargin);
    loop_.arm("time limit", os::now() + grace, [this] { stop_at_once(); });
  });
}

// On a thread of its own, because it waits for a controller that is being restarted.
void RunSession::ask_to_stop(bool is_immediate) {
  if (calling_.size() >= kMaxInterrupts) return;
  calling_.emplace_back([this, is_immediate] {
    const Status status = client_->stop(is_immediate);
    if (status) return;
    post([this, message = status.error().message] {
      if (!is_finishing_) view_.note(os::now(), Tone::Bad, "pace: cannot stop the job: " + message);
    });
  });
}

void RunSession::on_event(const JobEvent& event) {
  const Instant now = os::now();
  record_.take(now, event);
  view_.take(now, event);
  if (const auto* placed = std::get_if<RankPlaced>(&event); placed != nullptr && injector_)
    injector_->rank_placed({.rank = placed->rank,
                            .host_name = placed->host_name,
                            .process = static_cast<pid_t>(placed->process_id)});
  if (std::holds_alternative<JobEnded>(event)) finish();
}

void RunSession::on_struck(const fault::Struck& struck) {
  view_.note(os::now(), Tone::Bad, fault_line(struck));
  if (struck.failure.empty()) record_.take(recorded(struck));
}

void RunSession::on_watch_ended(const Status& status) {
  if (record_.end() || is_finishing_) return finish();
  fail(kExitNoController,
       status ? "the controller has ended the watch without a verdict" : status.error().message);
}

void RunSession::refresh() {
  view_.refresh(os::now());
  const Duration pause = terminal_.is_live() ? kRefreshInterval : kSilenceCheckInterval;
  loop_.arm("refresh", os::now() + pause, [this] { refresh(); });
}

void RunSession::finish() {
  if (std::exchange(is_finishing_, true)) return;
  // What was frozen for a while is continued now, or it could not end in order.
  injector_.reset();
  loop_.arm("end", os::now() + kEndLimit, [this] { loop_.stop(); });
  processes_->expect_ends();
}

void RunSession::fail(int exit_code, const std::string& reason) {
  if (record_.end()) return;
  if (!failure_) view_.note(os::now(), Tone::Bad, "pace: " + reason);
  failure_ = failure_.value_or(exit_code);
  loop_.stop();
}

int RunSession::exit_code() const {
  if (!record_.end()) return stop_code_.value_or(failure_.value_or(kExitBug));
  // Stopped at once, or in order but without a checkpoint: there is nothing to come back to. What a
  // program without the library saves is its own affair; one that has no steps of ours is one.
  const bool has_saved_itself = !options_.is_aware && record_.end()->step == Step(0);
  const bool has_checkpoint = !options_.checkpoint_directory.empty() &&
                              !checkpoint::list(options_.checkpoint_directory).empty();
  const bool has_committed = record_.end()->step > Step(0);
  const bool is_saved = record_.end()->exit_code == kExitRequeue
                            ? has_saved_itself || has_checkpoint
                            : has_checkpoint && !has_committed;  // what it resumed from still holds
  if (stop_code_ && record_.end()->verdict == Verdict::Stopped)
    return is_saved ? kExitRequeue : *stop_code_;
  return record_.end()->exit_code;
}

}  // namespace paceline::cli
