// Epochs and incidents: what a decision of Membership means for the job, and how it is told.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "core/control/controller_state.h"

namespace paceline::control {
namespace {

// A joiner that hung: it is over when the process that was started in its place is a member.
bool is_of_joiner(const Incident& incident) {
  return incident.kind == IncidentKind::Hang && incident.rank &&
         incident.action == ActionKind::RestartInPlace;
}

// No new epoch ends it: nothing is done about it, or what is done has an end of its own.
bool is_apart(const Incident& incident) {
  return incident.was_only_observed || incident.kind == IncidentKind::Straggler ||
         (incident.kind == IncidentKind::Poison && incident.action != ActionKind::Skip) ||
         is_of_joiner(incident);
}

}  // namespace

void ControllerCore::State::carry_out_membership() {
  if (!membership_) return;
  for (MembershipEffect& effect : membership_->take_effects())
    std::visit([this](auto& e) { carry_out(std::move(e)); }, effect);
}

void ControllerCore::State::carry_out(MembershipRecord record) {
  note_skipped(record);
  journal(std::move(record));
}

void ControllerCore::State::carry_out(SendControl effect) {
  const auto found = roster_.slots.find(effect.to.slot);
  if (found == roster_.slots.end()) return;
  send(found->second.host, ToRank{effect.to, std::move(effect.message)});
}

void ControllerCore::State::carry_out(const Decided& effect) {
  lost_connections_.clear();
  silent_to_.clear();
  for (const RankId rank : effect.left_out) {
    Slot* slot = roster_.find(rank);
    if (slot == nullptr || slot->state != SlotState::Member) continue;
    roster_.set(*slot, SlotState::Ending);  // it heals as a joiner, in a new process
    desire(slot->host);
  }
  uint32_t dropped = effect.micro_batches_dropped;  // the first incident is charged with it
  for (const auto& [id, incident] : incidents_.open_incidents()) {
    Incident* open = incidents_.find(id);
    const bool is_poison = open->kind == IncidentKind::Poison;
    if (is_apart(*open)) continue;
    if (!open->aborted) open->aborted = now_;
    incidents_.await_commit_in(id, effect.epoch.number);
    if (!is_poison) {
      const uint32_t redone = lost_work_of(*open, effect.epoch) + std::exchange(dropped, 0);
      explain_repair(*open, effect, std::min(redone, effect.micro_batches_given));
    }
    publish(*open);
  }
  lost_work_.clear();
  roll_back_reason_.reset();
  await_replacements();
}

void ControllerCore::State::carry_out(const Settled& effect) {
  for (const Member& member : membership_->base().members) {
    Slot* slot = roster_.find(member.rank);
    if (slot != nullptr && slot->is_alive() && slot->state != SlotState::Done)
      roster_.set(*slot, SlotState::Member);
  }
  notice(str("epoch ", effect.number, ": ", membership_->base().members.size(), " members"));
  await_replacements();
}

void ControllerCore::State::await_replacements() {
  const Epoch& base = membership_->base();
  for (const auto& [id, incident] : incidents_.open_incidents()) {
    if (!is_of_joiner(incident)) continue;
    const auto slot = roster_.slots.find(incident.rank->slot);
    if (slot == roster_.slots.end() || slot->second.rank() == *incident.rank) continue;
    if (base.has(slot->second.rank())) incidents_.await_commit_in(id, base.number);
  }
}

Incident& ControllerCore::State::open_incident(IncidentKind kind, std::optional<Slot*> slot) {
  Incident& incident = incidents_.open(kind, now_);
  incident.step = step_;
  if (slot) {
    incident.rank = (*slot)->rank();
    incident.host = (*slot)->host;
  }
  return incident;
}

// REQUIRES: in the step that opens it, so that its number is used.
void ControllerCore::State::publish(const Incident& incident) {
  journal(IncidentChanged{incident});
  watch(IncidentChanged{incident});
}

// Nothing of it is left to be repaired. It is gone afterwards.
void ControllerCore::State::publish_as_over(Incident& incident) {
  incident.recovered = now_;
  publish(incident);
  incidents_.close(incident.id);
}

Incident* ControllerCore::State::open_incident_of(const Slot& slot) {
  return slot.incident ? incidents_.find(*slot.incident) : nullptr;
}

Incident* ControllerCore::State::open_incident_of(HostId host) {
  for (const auto& [id, incident] : incidents_.open_incidents())
    if (incident.kind == IncidentKind::HostLost && incident.host == host)
      return incidents_.find(id);
  return nullptr;
}

void ControllerCore::State::restore_incident(const Incident& incident) {
  incidents_.restore(incident);
  if (incident.kind == IncidentKind::Straggler && incident.rank) restore_slowness(incident);
}

// What an earlier life of the controller has found and not seen the end of. Its repair is journaled
// with it: it is under way, and a decision will come, or the epoch in force is the repaired one.
void ControllerCore::State::resume_incidents() {
  const bool is_repaired = membership_ && membership_->phase() == Membership::Phase::Idle &&
                           membership_->base().number != EpochNumber(0);
  for (const auto& [id, incident] : incidents_.open_incidents()) {
    if (incident.was_only_observed && incident.kind == IncidentKind::Hang && incident.rank)
      judgement_.observed_hangs[*incident.rank] = id;
    if (is_apart(incident) && !is_of_joiner(incident)) continue;
    if (incident.rank && incident.kind != IncidentKind::Poison)  // is about no process
      if (Slot* slot = roster_.find(*incident.rank)) slot->incident = id;
    const bool is_of_host =
        incident.kind == IncidentKind::HostLost || incident.kind == IncidentKind::DeadPath;
    if (is_of_host && incident.host && membership_)
      for (Slot* slot : roster_.on_host(*incident.host))
        if (membership_->may_be_in_force(slot->rank())) slot->incident = id;
    if (is_repaired && !is_apart(incident))
      incidents_.await_commit_in(id, membership_->base().number);
  }
  if (is_repaired) await_replacements();
}

// REQUIRES: slot.incident is set, if there is one about the loss.
void ControllerCore::State::note_lost_work(const Slot& slot) {
  if (!membership_ || !membership_->may_be_in_force(slot.rank())) return;
  lost_work_[slot.rank()] = {slot.committed, slot.begun, slot.incident};
}

// What its ranks had begun of the step that runs at the decision. A rank that was last seen in an
// earlier step may have begun more: what nobody knows is not counted.
uint32_t ControllerCore::State::lost_work_of(const Incident& incident,
                                             const Epoch& decision) const {
  uint32_t begun = 0;
  for (const auto& [rank, work] : lost_work_)
    if (work.incident == incident.id && work.committed == decision.target && !decision.has(rank))
      begun += work.begun;
  return begun;
}

// `redone`: micro-batches that had been begun and are lost with the incident. A second loss before
// the next commit adds to it.
void ControllerCore::State::explain_repair(Incident& incident, const Decided& decision,
                                           uint32_t redone) {
  if (roll_back_reason_) {
    incident.action = ActionKind::RollBack;
    incident.reason = *roll_back_reason_;
    return;
  }
  const std::vector<MemberIndex> workers = divider_.workers_of(decision.epoch.members);
  const bool has_spare = workers.size() >= world_size_;
  incident.micro_batches_redone += redone;
  std::vector<Slot*> lost;
  for (auto& [id, slot] : roster_.slots)
    if (slot.incident == incident.id && !slot.is_cold) lost.push_back(&slot);
  const bool is_replaced = !spec_.has_hot_spares && incident.action == ActionKind::SwapSpare;
  if (lost.empty() && is_replaced) return;  // by the decision before this one
  incident.alternatives = price_loss_of(lost, incident.micro_batches_redone);
  incident.action = has_spare ? ActionKind::SwapSpare : ActionKind::Shrink;
  incident.reason =
      str("what nobody holds of the running step (",
          counted(decision.micro_batches_given, "micro-batch"), ", ", incident.micro_batches_redone,
          " of them begun before) goes to ", counted(decision.epoch.members.size(), "survivor"),
          " in epoch ", decision.epoch.number);
  const Alternative& chosen = incident.alternatives[recovery::choose(incident.alternatives)];
  if (!has_spare && chosen.action == ActionKind::SwapSpare && !lost.empty() && !is_stop_wanted_) {
    incident.action = ActionKind::SwapSpare;
    incident.reason += str("; cold spare ", names_of(start_spares_for(lost)),
                           " joins them: ", recovery::reason_of(incident.alternatives, chosen));
    return;
  }
  if (has_spare) incident.reason += "; a hot spare takes over the work";
  incident.reason += incident.kind == IncidentKind::DeadPath
                         ? str("; the host may come back in ", paths_.pause_of(*incident.host))
                         : "; the lost processes are started again beside it";
}

// Who stands by while enough others can work.
void ControllerCore::State::set_divider() {
  divider_.set_workers(world_size_ != 0 ? world_size_ : spec_.ranks());
  divider_.set_standby(standby_with(judgement_.relieved));
}

}  // namespace paceline::control
