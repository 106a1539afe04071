#include "cli/run_processes.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>
#include <variant>

#include "base/str.h"
#include "cli/descendants.h"
#include "cli/exit_code.h"
#include "cli/run_environment.h"
#include "live/os/clock.h"
#include "live/rpc/endpoint.h"

namespace paceline::cli {
namespace {

constexpr Duration kEndLimit = Duration::seconds(5);

std::string end_text(const os::ExitStatus& status) {
  return status.is_killed ? str("was ended by signal ", status.code)
                          : str("ended with code ", status.code);
}

}  // namespace

RunProcesses::RunProcesses(os::Loop& loop, Options options, Callbacks callbacks)
    : loop_(loop), options_(std::move(options)), callbacks_(std::move(callbacks)) {}

RunProcesses::~RunProcesses() { end_all(); }

Status RunProcesses::start() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return Failure{ErrorCode::Io, str("cannot make a pipe: ", std::strerror(errno))};
  life_read_ = os::Descriptor(ends[0]);
  life_write_ = os::Descriptor(ends[1]);

  std::error_code error;
  const std::string pace = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return Failure{ErrorCode::Io, "cannot find the pace binary: " + error.message()};
  daemons_.push_back(
      {.name = "controller",
       .is_controller = true,
       .arguments = {pace, "controller", "--listen", options_.controller_address, "--journal",
                     options_.journal, "--parent-fd", str(life_read_.get())}});
  for (uint32_t host = 0; host < options_.hosts; ++host) {
    const std::string name = str("host", host);
    std::vector<std::string> arguments{pace,           "agent",
                                       "--controller", options_.controller_address,
                                       "--host-name",  name,
                                       "--address",    local_address(host),
                                       "--parent-fd",  str(life_read_.get())};
    if (!options_.log_directory.empty())
      arguments.insert(arguments.end(), {"--log-dir", options_.log_directory});
    daemons_.push_back({.name = name, .arguments = std::move(arguments)});
  }
  for (Daemon& daemon : daemons_) TRY(start(daemon));
  return {};
}

Status RunProcesses::start(Daemon& daemon) {
  os::SpawnOptions options;
  options.arguments = daemon.arguments;
  options.environment = os::current_environment();
  options.environment.emplace_back(rpc::kTokenVariable, options_.token);
  options.inherited = {life_read_.get()};
  std::variant<os::Process, os::SpawnError> spawned = os::Process::spawn(options);
  if (const auto* failure = std::get_if<os::SpawnError>(&spawned))
    return Failure{ErrorCode::Io, str("cannot start ", daemon.name, ": ", failure->reason)};
  daemon.process = std::move(std::get<os::Process>(spawned));
  daemon.started = os::now();
  // Daemons stay where they are in the vector: it does not grow once they run.
  loop_.watch(daemon.process->descriptor(), EPOLLIN,
              [this, &daemon](uint32_t) { on_ended(daemon); });
  if (daemon.is_controller)
    callbacks_.on_controller(daemon.process->id());
  else
    callbacks_.on_agent(daemon.name, daemon.process->id());
  return {};
}

bool RunProcesses::may_restart(Daemon& daemon, Instant now) {
  while (!daemon.restarts.empty() && now - daemon.restarts.front() > kRestartSpan)
    daemon.restarts.pop_front();
  if (daemon.restarts.size() >= kMaxRestarts) return false;
  daemon.restarts.push_back(now);
  return true;
}

void RunProcesses::on_ended(Daemon& daemon) {
  loop_.unwatch(daemon.process->descriptor());
  const os::ExitStatus status = daemon.process->reap();
  daemon.process.reset();
  // One that has been told to end says so by code 0.
  const bool is_in_order = !status.is_killed && status.code == 0;
  if (is_ending_ || is_in_order) return tell_if_all_ended();

  const std::string what =
      str(daemon.is_controller ? "the controller" : "the agent of " + daemon.name, " ",
          end_text(status));
  if (daemon.is_controller && !status.is_killed && status.code == kExitJournal)
    return start_later(daemon, what);
  if (!may_restart(daemon, os::now())) {
    callbacks_.on_note(str(what, "; not started again, ", kMaxRestarts, " times in ", kRestartSpan,
                           " are enough"));
    if (daemon.is_controller) callbacks_.on_lost(what);
    return tell_if_all_ended();
  }
  callbacks_.on_note(what + "; starting it again");
  const Status restarted = start(daemon);
  if (restarted) return;
  callbacks_.on_note(restarted.error().message);
  if (daemon.is_controller) callbacks_.on_lost(restarted.error().message);
}

void RunProcesses::start_later(Daemon& daemon, const std::string& what) {
  const Instant now = os::now();
  const bool has_worked = now - daemon.started > kRestartSpan;
  daemon.pause = has_worked || daemon.pause == Duration()
                     ? kFirstPause
                     : std::min(daemon.pause + daemon.pause, kLongestPause);
  callbacks_.on_note(str(what,
                         ", it cannot write its journal; ranks train on without it, next try in ",
                         daemon.pause));
  loop_.arm("controller again", now + daemon.pause, [this, &daemon] {
    if (is_ending_) return;
    const Status started = start(daemon);
    if (!started) callbacks_.on_lost(started.error().message);
  });
}

void RunProcesses::tell_if_all_ended() {
  for (const Daemon& daemon : daemons_)
    if (daemon.process) return;
  callbacks_.on_all_ended();
}

void RunProcesses::expect_ends() {
  is_ending_ = true;
  tell_if_all_ended();
}

void RunProcesses::end_all() {
  is_ending_ = true;
  for (Daemon& daemon : daemons_) {
    if (!daemon.process) continue;
    loop_.unwatch(daemon.process->descriptor());
    daemon.process->signal_group(SIGKILL);
  }
  for (Daemon& daemon : daemons_) daemon.process.reset();
  end_descendants(kEndLimit);
}

}  // namespace paceline::cli
