// Cold spares: hosts that stand by without a process, and when one starts in the place of another.
//
// A cold slot has no process and wants none. A swap turns two slots round: the spare's is started
// and heals as any joiner, the lost one is cold from then on, so that its host is a spare once it
// is back. The job has as many slots that are not cold as it had ranks at its start. The swap is
// chosen by cost (core/recovery/choice.h): where the lost can be started again in their own place
// as soon, the spare stays idle.
//
// A slot that was given up is not started again as a spare: whatever ended it is still there.
#include <algorithm>

#include "base/check.h"
#include "core/control/controller_state.h"

namespace paceline::control {

bool ControllerCore::State::is_idle_spare(const Slot& slot) const {
  if (!slot.is_cold || slot.state != SlotState::Empty) return false;
  const Host& host = roster_.hosts.at(slot.host);
  return is_heard(host) && host.state == HostState::Ready && !paths_.is_kept_out(host.id, now_) &&
         slot.restarts <= spec_.max_restarts;
}

size_t ControllerCore::State::count_idle_spares() const {
  return static_cast<size_t>(
      std::count_if(roster_.slots.begin(), roster_.slots.end(),
                    [this](const auto& entry) { return is_idle_spare(entry.second); }));
}

// No process is wanted in it until it is needed.
void ControllerCore::State::lay_idle(Slot& slot) {
  slot.is_cold = true;
  slot.restart_at.reset();
  Host& host = roster_.hosts.at(slot.host);
  const std::vector<Slot*> slots = roster_.on_host(slot.host);
  host.is_spare =
      std::all_of(slots.begin(), slots.end(), [](const Slot* each) { return each->is_cold; });
  journal_assignment(slot);
}

// Lowest slots first, on both sides. Returns the slots that were started.
std::vector<Slot*> ControllerCore::State::start_spares_for(const std::vector<Slot*>& lost) {
  std::vector<Slot*> started;
  std::set<HostId> changed;
  auto next = roster_.slots.begin();
  for (Slot* gone : lost) {
    next = std::find_if(next, roster_.slots.end(),
                        [this](const auto& entry) { return is_idle_spare(entry.second); });
    if (next == roster_.slots.end()) break;
    Slot& spare = next->second;
    ++next;  // the lost one, cold from here on, is none for this loss
    roster_.hosts.at(spare.host).is_spare = false;
    assign_process(spare, phase == JobPhase::Running);
    lay_idle(*gone);
    started.push_back(&spare);
    changed.insert(spare.host);
    changed.insert(gone->host);
  }
  for (const HostId host : changed) desire(host);
  return started;
}

// How long until it can be started again where it was; none: nobody knows.
std::optional<Duration> ControllerCore::State::restart_after(const Slot& slot) const {
  const Host& host = roster_.hosts.at(slot.host);
  if (host.state != HostState::Ready || !host.is_connected) return std::nullopt;
  const Duration kept_out = paths_.kept_out_for(host.id, now_);
  if (slot.state != SlotState::Empty) return kept_out;  // once its process is gone
  if (!slot.restart_at) return std::nullopt;
  return std::max(kept_out, *slot.restart_at - now_);
}

// A slot that stays without a process: given up, on a host that is away or kept out, or to be
// started again only later. Most are replaced with the decision about their loss; here are those
// for which there was no spare then, or that failed after it.
void ControllerCore::State::replace_abandoned() {
  if (spec_.has_hot_spares || phase != JobPhase::Running || !membership_ || poison_) return;
  if (membership_->phase() != Membership::Phase::Idle || is_stop_wanted_) return;
  const size_t alive =
      roster_.slots.size() - roster_.count(SlotState::Empty) - roster_.count(SlotState::Ending);
  if (alive >= world_size_ || count_idle_spares() == 0) return;
  std::vector<Slot*> lost;
  for (auto& [id, slot] : roster_.slots) {
    const bool is_away = roster_.hosts.at(slot.host).state == HostState::Lost;
    const bool is_gone =
        slot.state == SlotState::Empty || (slot.state == SlotState::Ending && is_away);
    if (!slot.is_cold && is_gone) lost.push_back(&slot);
  }
  if (lost.empty()) return;
  const std::vector<Alternative> alternatives = price_loss_of(lost, 0);
  const Alternative& chosen = alternatives[recovery::choose(alternatives)];
  if (chosen.action != ActionKind::SwapSpare) return;
  const std::vector<Slot*> started = start_spares_for(lost);
  notice(str("cold spare: ", names_of(started), " takes the place of ", names_of(lost), ": ",
             recovery::reason_of(alternatives, chosen)));
}

// All start anew, and nothing is to be weighed: whose host is away or kept out starts elsewhere.
void ControllerCore::State::replace_unreachable() {
  std::vector<Slot*> lost;
  for (auto& [id, slot] : roster_.slots)
    if (!slot.is_cold && restart_after(slot) != Duration()) lost.push_back(&slot);
  const std::vector<Slot*> started = start_spares_for(lost);
  if (!started.empty()) notice(str("cold spare: ", names_of(started), " starts with the others"));
}

std::string ControllerCore::State::names_of(const std::vector<Slot*>& slots) const {
  std::string names;
  for (const Slot* slot : slots) names += str(names.empty() ? "" : ", ", describe(*slot));
  return names;
}

}  // namespace paceline::control
