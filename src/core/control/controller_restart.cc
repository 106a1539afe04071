// Programs that do not link the library (design section 5, point 10): torchrun's environment
// contract, and restarts of all ranks from the program's own checkpoint as the only repair.
//
// One rank that ends other than with code 0, or one lost host, ends the attempt: the remaining
// processes are ended, a lost host's ranks move to a spare host, and once every process is gone all
// ranks start again. Nothing is known of progress, so max_restarts bounds the attempts of the job.
#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "core/control/controller_state.h"

namespace paceline::control {
namespace {

// No rank speaks of its peers here, so an agent's silence is all the evidence that there is. It is
// given longer, since a restart costs everybody everything since the last checkpoint.
constexpr Duration kUnawareSilence = Duration::seconds(5);
constexpr Duration kUnawareDisconnect = Duration::seconds(2);

}  // namespace

void ControllerCore::State::unaware_rank_ended(Slot& slot, const RankEnded& event) {
  if (event.how == RankEnded::How::Dying) return;  // its exit code decides
  const bool is_expected = slot.state == SlotState::Ending;
  const bool is_success = event.how == RankEnded::How::Exited && event.code == 0;
  roster_.set(slot, is_success && !is_expected ? SlotState::Done : SlotState::Empty);
  if (phase == JobPhase::Ending || phase == JobPhase::Finished || is_expected || is_success) return;
  Incident& incident = open_incident(IncidentKind::Crash, &slot);
  incident.evidence = how_it_ended(event);
  std::string reason = str(describe(slot), " ", incident.evidence);
  for (const std::string& line : event.last_lines) reason += str("\n  ", line);
  const bool is_killed = event.how == RankEnded::How::Killed;
  end_attempt(incident, std::move(reason), is_killed ? 128 + event.code : event.code);
}

void ControllerCore::State::end_attempt(Incident& incident, std::string reason, int32_t exit_code) {
  incident.action = attempts_ < spec_.max_restarts ? ActionKind::RollBack : ActionKind::Stop;
  incident.reason = str("restart ", attempts_ + 1, " of at most ", spec_.max_restarts,
                        ": all ranks start again from the program's own checkpoint");
  publish(incident);
  if (attempts_ >= spec_.max_restarts) {
    end_job(Verdict::Failed, exit_code == 0 ? 1 : exit_code, std::move(reason));
    return;
  }
  ++attempts_;
  notice(std::move(reason));
  for (auto& [id, slot] : roster_.slots)
    if (slot.state != SlotState::Empty) roster_.set(slot, SlotState::Ending);
  is_attempt_over_ = true;
  for (const auto& [id, host] : roster_.hosts) desire(id);
}

void ControllerCore::State::judge_unaware_hosts() {
  if (phase != JobPhase::Starting || is_attempt_over_) return;
  for (auto& [id, host] : roster_.hosts) {
    const std::vector<Slot*> slots = roster_.on_host(id);
    const bool has_work =
        std::any_of(slots.begin(), slots.end(), [](const Slot* slot) { return slot->is_alive(); });
    const Duration silence = now_ - host.last_heard;
    if (!has_work || host.state == HostState::Lost) continue;
    if (silence < (host.is_connected ? kUnawareSilence : kUnawareDisconnect)) continue;
    host.state = HostState::Lost;
    Incident& incident = open_incident(IncidentKind::HostLost, std::nullopt);
    incident.host = id;
    incident.evidence = str("its agent has been silent for ", silence);
    end_attempt(incident, str(host.name, ": ", incident.evidence), 75);
    return;
  }
}

// The next attempt: once every process that can be heard of is gone, and each lost host is
// replaced.
void ControllerCore::State::start_next_attempt() {
  if (!is_attempt_over_ || phase != JobPhase::Starting) return;
  std::set<HostId> changed;
  for (auto& [slot_id, slot] : roster_.slots) {
    const Host& host = roster_.hosts.at(slot.host);
    if (host.state == HostState::Ready && !host.present.empty()) return;
    if (host.state == HostState::Ready && host.is_connected) continue;
    const std::optional<HostId> spare = idle_host();
    if (!spare) return;  // until a host comes back
    notice(str(host_name(*spare), " takes over the ranks of ", host.name));
    const HostId lost = slot.host;
    for (Slot* moved : roster_.on_host(lost)) moved->host = *spare;
  }
  is_attempt_over_ = false;
  for (auto& [id, slot] : roster_.slots) {
    assign_process(slot, false);
    changed.insert(slot.host);
  }
  for (const HostId host : changed) desire(host);
}

std::optional<HostId> ControllerCore::State::idle_host() {
  for (const auto& [id, host] : roster_.hosts)
    if (host.is_connected && host.state == HostState::Ready && host.present.empty() &&
        roster_.on_host(id).empty())
      return id;
  return std::nullopt;
}

void ControllerCore::State::finish_unaware() {
  if (phase != JobPhase::Starting || spec_.is_aware || roster_.slots.empty()) return;
  for (const auto& [id, slot] : roster_.slots)
    if (slot.state != SlotState::Done) return;
  end_job(Verdict::Completed, 0, "completed");
}

}  // namespace paceline::control
