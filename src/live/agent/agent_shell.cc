#include "live/agent/agent_shell.h"

#include <signal.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/check.h"
#include "base/str.h"
#include "live/os/clock.h"
#include "live/os/proc_stat.h"
#include "live/wire/rank_ring.h"

namespace paceline::agent {
namespace {

constexpr const char* kWindowTimer = "window";
constexpr const char* kOutputTimer = "output";
constexpr const char* kDeadlineTimer = "agent";
// A timer that fires no later than this is on time.
constexpr Duration kTimerSlack = Duration::milliseconds(20);
// A rank that has stood still for this long is asked for evidence before it is ended.
constexpr Duration kEvidenceAge = Duration::milliseconds(400);

static_assert(kQuietSamples * 4 <= wire::kSampleSlots && kQuietMetrics * 4 <= wire::kMetricSlots,
              "a ring must hold what is written until its next reading, also if that is late");

}  // namespace

AgentShell::AgentShell(os::Loop& loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      core_(options_.core, os::now()),
      self_(std::make_shared<AgentShell*>(this)) {
  arm_timers();
}

AgentShell::~AgentShell() {
  loop_.disarm(kWindowTimer);
  loop_.disarm(kOutputTimer);
  loop_.disarm(kDeadlineTimer);
  // All at once, so that they die at the same time; then one after the other is waited for.
  for (auto& [rank, watched] : processes_) watched.process->process().signal_group(SIGKILL);
}

void AgentShell::controller_connected() { step(StreamUp{}); }
void AgentShell::controller_said(const HostCommand& command) { step(CommandReceived{command}); }
void AgentShell::controller_lost() { step(StreamDown{}); }
void AgentShell::parent_gone() { step(ParentGone{}); }

// --- Driving the core ---

void AgentShell::step(const Event& event) {
  pending_.push_back(event);
  if (is_stepping_) return;
  is_stepping_ = true;
  while (!pending_.empty()) {
    const std::vector<Event> events = std::exchange(pending_, {});
    for (const Event& next : events) {
      core_.step(os::now(), next);
      for (const Effect& effect : core_.take_effects())
        std::visit([this](const auto& e) { carry_out(e); }, effect);
    }
  }
  is_stepping_ = false;
  arm_timers();
}

void AgentShell::arm_timers() {
  if (const std::optional<Instant> deadline = core_.next_deadline())
    loop_.arm(kDeadlineTimer, *deadline, [this] { step(Tick{}); });
  else
    loop_.disarm(kDeadlineTimer);
  if (core_.next_reading() == window_due_) return;
  window_due_ = core_.next_reading();
  loop_.arm(kWindowTimer, window_due_, [this] { close_window(); });
}

void AgentShell::carry_out(const Spawn& effect) {
  const RankId rank = effect.rank.rank;
  auto on_bell = [this, rank, weak = std::weak_ptr(self_)] {
    // A refused post loses nothing but time: the end of the process is seen without the bell.
    [[maybe_unused]] const bool is_posted = loop_.post([rank, weak] {
      if (const auto self = weak.lock()) (*self)->bell_rang(rank);
    });
  };
  auto started = RankProcess::start(effect, options_.host, std::move(on_bell));
  if (const auto* failure = std::get_if<os::SpawnError>(&started)) {
    step(SpawnFailed{
        .rank = rank, .reason = failure->reason, .is_permanent = failure->is_permanent});
    return;
  }
  Watched& watched = processes_[rank];
  watched.process = std::move(std::get<std::unique_ptr<RankProcess>>(started));
  watched.end.emplace(loop_, watched.process->process().descriptor(), EPOLLIN,
                      [this, rank](uint32_t) { process_ended(rank); });
  watched.socket.emplace(loop_, watched.process->socket().descriptor(), EPOLLIN,
                         [this, rank](uint32_t events) { socket_ready(rank, events); });
  for (size_t i = 0; i < watched.outputs.size(); ++i) watch_output(rank, watched, i);
  step(ProcessSpawned{.rank = rank, .process_id = watched.process->process().id()});
}

void AgentShell::carry_out(const AskToEnd& effect) {
  const auto found = processes_.find(effect.rank);
  if (found != processes_.end()) found->second.process->process().signal_group(SIGTERM);
}

void AgentShell::carry_out(const EndGroup& effect) {
  const auto found = processes_.find(effect.rank);
  if (found == processes_.end()) return;
  if (effect.is_evidence_wanted) keep_evidence(effect.rank, *found->second.process);
  found->second.process->process().signal_group(SIGKILL);
}

void AgentShell::carry_out(const TellRank& effect) {
  const auto found = processes_.find(effect.rank);
  if (found == processes_.end() || !found->second.socket) return;
  RankSocket& socket = found->second.process->socket();
  if (!socket.send(effect.order) && socket.dropped_count() == 1)
    std::fprintf(stderr, "pace agent: %s does not read: messages to it are dropped\n",
                 str(effect.rank).c_str());
  if (socket.has_queued()) found->second.socket->rewatch(EPOLLIN | EPOLLOUT);
}

void AgentShell::carry_out(const Send& effect) { options_.send(effect.event); }
void AgentShell::carry_out(const Exit& effect) { options_.on_exit(effect.reason); }

// --- Listening to ranks ---

void AgentShell::watch_output(RankId rank, Watched& watched, size_t output) {
  watched.outputs[output].emplace(
      loop_, watched.process->outputs()[output].descriptor(), EPOLLIN,
      [this, rank, output](uint32_t) { read_output(rank, processes_.at(rank), output); });
}

void AgentShell::socket_ready(RankId rank, uint32_t events) {
  Watched& watched = processes_.at(rank);
  if ((events & EPOLLOUT) != 0) {
    watched.process->socket().flush();
    if (!watched.process->socket().has_queued()) watched.socket->rewatch(EPOLLIN);
  }
  read_socket(rank, watched);
}

void AgentShell::read_socket(RankId rank, Watched& watched) {
  RankSocket& socket = watched.process->socket();
  const uint64_t refused = socket.refused_count();
  std::vector<RankMessage> messages = socket.receive();
  if (!messages.empty()) watched.process->has_spoken();
  for (RankMessage& message : messages) step(RankSaid{std::move(message)});
  if (socket.refused_count() != refused)
    std::fprintf(stderr, "pace agent: %s sent a record that cannot be understood\n",
                 str(rank).c_str());
  if (socket.has_ended()) watched.socket.reset();
}

void AgentShell::read_output(RankId rank, Watched& watched, size_t index) {
  RankOutput& output = watched.process->outputs()[index];
  take_lines(rank, *watched.process, output, output.read());
  if (!output.has_ended() && !output.is_exhausted()) return;
  watched.outputs[index].reset();
  if (output.is_exhausted())
    loop_.arm(kOutputTimer, os::now() + kWindowInterval, [this] { renew_outputs(); });
}

void AgentShell::take_lines(RankId rank, RankProcess& process, const RankOutput& output,
                            const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  if (process.log()) process.log()->write(lines);
  step(OutputRead{.rank = rank, .is_stderr = output.is_stderr(), .lines = lines});
}

// --- The end of a rank ---

void AgentShell::bell_rang(RankId rank) {
  const auto found = processes_.find(rank);
  if (found == processes_.end()) return;  // reaped before the bell's message was taken
  Watched& watched = found->second;
  read_socket(rank, watched);
  for (size_t i = 0; i < watched.outputs.size(); ++i) read_output(rank, watched, i);
  step(BellRang{.rank = rank, .view = watched.process->view()});
}

void AgentShell::process_ended(RankId rank) {
  Watched& watched = processes_.at(rank);
  RankProcess& process = *watched.process;
  // A descriptor number that was another's a moment ago may bring a stale event.
  if (!process.process().has_ended()) return;
  const os::ExitStatus status = process.process().reap();
  read_socket(rank, watched);
  for (RankOutput& output : process.outputs()) take_lines(rank, process, output, output.finish());
  collect_measurements(rank, process);
  const RankView view = process.view();
  processes_.erase(rank);
  step(
      ProcessEnded{.rank = rank, .is_killed = status.is_killed, .code = status.code, .view = view});
}

void AgentShell::keep_evidence(RankId rank, RankProcess& process) {
  const RankView view = process.view();
  if (view.phase == RankPhase::Done || os::now() - view.phase_since < kEvidenceAge) return;
  std::vector<std::string> lines;
  for (const std::string& line : os::collect_evidence(process.process().id()))
    lines.push_back(kEvidencePrefix + line);
  take_lines(rank, process, process.outputs()[1], lines);
}

// --- Every window ---

void AgentShell::collect_measurements(RankId rank, RankProcess& process) {
  for (const RankSample& sample : process.ring().take_samples())
    window_.samples.emplace_back(rank, sample);
  for (RankMetric& metric : process.ring().take_metrics())
    window_.metrics.push_back(std::move(metric));
}

void AgentShell::close_window() {
  const Instant now = os::now();
  const Duration late = now - window_due_;
  window_.blind = late > kTimerSlack ? late - kTimerSlack : Duration();
  for (auto& [rank, watched] : processes_) {
    window_.views.push_back(watched.process->view());
    collect_measurements(rank, *watched.process);
  }
  renew_outputs();
  step(std::exchange(window_, {}));
}

void AgentShell::renew_outputs() {
  for (auto& [rank, watched] : processes_)
    for (size_t i = 0; i < watched.outputs.size(); ++i) {
      RankOutput& output = watched.process->outputs()[i];
      output.renew_budget();
      if (!watched.outputs[i] && !output.has_ended()) watch_output(rank, watched, i);
    }
}

}  // namespace paceline::agent
