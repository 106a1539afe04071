// Programs that do not link the library (design section 5, point 10): torchrun's environment
// contract, and restarts of all ranks from the program's own checkpoint as the only repair.
//
// One rank that ends other than with code 0, or one lost host, ends the attempt: the remaining
// processes are ended (SIGTERM, then SIGKILL), a lost host's ranks move to a spare host, and once
// every process is gone all ranks start again. Nothing is known of progress, so max_restarts bounds
// the attempts of the job.
#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "core/control/controller_state.h"
#include "core/control/exit_code.h"

namespace paceline::control {
namespace {

// From SIGTERM to SIGKILL for the others, when one has failed: all wait for it.
constexpr Duration kRestartGrace = Duration::seconds(3);
// What the end of an agent's ranks may take beyond the grace.
constexpr Duration kStopMargin = Duration::seconds(2);

}  // namespace

void ControllerCore::State::unaware_rank_ended(Slot& slot, const RankEnded& event) {
  if (event.how == RankEnded::How::Dying) return;  // its exit code decides
  const bool is_expected = slot.state == SlotState::Ending;
  const bool is_success = event.how == RankEnded::How::Exited && event.code == 0;
  roster_.set(slot, is_success && !is_expected ? SlotState::Done : SlotState::Empty);
  has_saved_ &= is_success;
  if (phase == JobPhase::Ending || phase == JobPhase::Finished || is_expected || is_success) return;
  Incident& incident = open_incident(IncidentKind::Crash, &slot);
  incident.evidence = how_it_ended(event);
  // Which of the ranks fails first is chance: the same failure of another is the same failure.
  const bool is_certain = is_hopeless(slot, event);
  for (auto& [id, other] : roster_.slots) other.failed_with = slot.failed_with;
  end_attempt(incident,
              {.reason = describe_end(slot, event, is_certain ? str(": ", kHopeless) : str()),
               .exit_code = exit_code_of(event),
               .is_hopeless = is_certain});
}

void ControllerCore::State::end_attempt(Incident& incident, AttemptEnd end) {
  end_grace_ = std::min(spec_.stop_grace, kRestartGrace);
  const bool is_last = end.is_hopeless || attempts_ >= spec_.max_restarts;
  incident.action = is_last ? ActionKind::Stop : ActionKind::RollBack;
  incident.reason = end.is_hopeless ? kHopeless
                    : is_last
                        ? str("restarted ", counted(attempts_, "time"), ", which is the limit")
                        : str("restart ", attempts_ + 1, " of at most ", spec_.max_restarts,
                              ": all ranks start again from the program's own checkpoint");
  publish(incident);
  if (is_last) {
    end_job(Verdict::Failed, end.exit_code, std::move(end.reason));
    return;
  }
  ++attempts_;
  notice(std::move(end.reason));
  for (auto& [id, slot] : roster_.slots)
    if (slot.state != SlotState::Empty) roster_.set(slot, SlotState::Ending);
  is_attempt_over_ = true;
  for (const auto& [id, host] : roster_.hosts) desire(id);
}

void ControllerCore::State::judge_unaware_hosts() {
  if (phase != JobPhase::Starting || is_attempt_over_ || is_stop_wanted_) return;
  for (auto& [id, host] : roster_.hosts) {
    const std::vector<Slot*> slots = roster_.on_host(id);
    const bool has_work =
        std::any_of(slots.begin(), slots.end(), [](const Slot* slot) { return slot->is_alive(); });
    if (!has_work || host.state == HostState::Lost || !is_silent_for_good(host)) continue;
    host.state = HostState::Lost;
    Incident& incident = open_incident(IncidentKind::HostLost, std::nullopt);
    incident.host = id;
    incident.evidence = str("its agent has been silent for ", now_ - host.silent_since);
    end_attempt(incident, {.reason = str(host.name, ": ", incident.evidence),
                           .exit_code = kExitRequeue,
                           .is_hopeless = false});
    return;
  }
}

// The next attempt: once every process that can be heard of is gone, and each lost host is
// replaced.
void ControllerCore::State::start_next_attempt() {
  if (!is_attempt_over_ || phase != JobPhase::Starting || is_stop_wanted_) return;
  std::set<HostId> changed;
  for (auto& [slot_id, slot] : roster_.slots) {
    if (slot.is_cold) continue;
    const Host& host = roster_.hosts.at(slot.host);
    if (host.state == HostState::Ready && !host.present.empty()) return;
    if (host.state == HostState::Ready && host.is_connected) continue;
    const std::optional<HostId> spare = idle_host();
    if (!spare) return;  // until a host comes back
    notice(str(host_name(*spare), " takes over the ranks of ", host.name));
    const HostId lost = slot.host;
    const std::vector<Slot*> idle = roster_.on_host(*spare);
    for (Slot* moved : roster_.on_host(lost)) moved->host = *spare;
    roster_.hosts.at(*spare).is_spare = false;
    for (Slot* left : idle) {
      left->host = lost;
      lay_idle(*left);
    }
  }
  is_attempt_over_ = false;
  end_grace_ = {};
  for (auto& [id, slot] : roster_.slots) {
    if (slot.is_cold) continue;
    slot.restarts = attempts_;
    assign_process(slot, false);
    changed.insert(slot.host);
  }
  for (const HostId host : changed) desire(host);
}

std::optional<HostId> ControllerCore::State::idle_host() {
  for (const auto& [id, host] : roster_.hosts) {
    const std::vector<Slot*> slots = roster_.on_host(id);
    const bool has_no_work =
        std::all_of(slots.begin(), slots.end(), [](const Slot* slot) { return slot->is_cold; });
    if (host.is_connected && host.state == HostState::Ready && host.present.empty() && has_no_work)
      return id;
  }
  return std::nullopt;
}

// Only the program knows what to save, and how: it gets SIGTERM, and time.
void ControllerCore::State::stop_unaware() {
  stop_by_ = now_ + spec_.stop_grace + kStopMargin;
  end_grace_ = spec_.stop_grace;
  has_saved_ &= !is_attempt_over_;
  for (auto& [id, slot] : roster_.slots)
    if (slot.is_alive() && slot.state != SlotState::Done) roster_.set(slot, SlotState::Ending);
  for (const auto& [id, host] : roster_.hosts) desire(id);
}

void ControllerCore::State::finish_stopped_unaware() {
  const bool has_ended =
      std::all_of(roster_.slots.begin(), roster_.slots.end(), [this](const auto& entry) {
        const Host& host = roster_.hosts.at(entry.second.host);  // not heard yet: after a restart
        return entry.second.is_cold || (host.is_connected && host.present.empty());
      });
  if (!has_ended && now_ < *stop_by_) return;
  stop_by_.reset();
  if (has_ended && has_saved_) {
    end_job(Verdict::Stopped, kExitRequeue, "stopped in order: all ranks ended with code 0");
  } else {
    end_job(Verdict::Stopped, kExitInterrupted,
            "stopped: not all ranks ended with code 0 when they were asked to (SIGTERM)");
  }
}

void ControllerCore::State::finish_unaware() {
  if (phase != JobPhase::Starting || spec_.is_aware || roster_.slots.empty()) return;
  if (stop_by_) {
    finish_stopped_unaware();
    return;
  }
  for (const auto& [id, slot] : roster_.slots)
    if (slot.state != SlotState::Done && !slot.is_cold) return;
  end_job(Verdict::Completed, 0, "completed");
}

}  // namespace paceline::control
