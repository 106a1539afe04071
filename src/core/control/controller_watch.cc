// Samples in; progress, turns and goodput out.
#include <algorithm>

#include "base/str.h"
#include "core/control/controller_state.h"

namespace paceline::control {

void ControllerCore::State::take_window(HostId, const Window& window) {
  for (const RankView& view : window.views) {
    Slot* slot = roster_.find(view.rank);
    if (slot == nullptr || !slot->is_alive()) continue;
    slot->committed = view.committed;
    slot->begun = view.begun;
    if (view.last_beat != slot->last_beat) slot->beat_at = now_;
    slot->last_beat = view.last_beat;
    if (slot->state == SlotState::Member || slot->state == SlotState::Done)
      note_commit(view.committed, view.step, view.epoch);
    if (membership_) membership_->entered(view.rank, view.epoch);
  }
  judgement_.hangs.observe(now_, window);
  for (const auto& [rank, sample] : window.samples) take_sample(rank, sample);
  for (const RankMetric& metric : window.metrics) watch(metric);
}

void ControllerCore::State::take_sample(RankId rank, const RankSample& sample) {
  if (!turns_ || !ledger_ || !turns_->is_new(rank, sample)) return;
  measure(rank, sample);
  note_reached(rank, sample.epoch);
  ledger_->computed(sample.compute);
  for (Incident& ended : incidents_.committed(sample.epoch, sample.committed)) {
    if (sample.micro_batches > 0)
      ledger_->redone(sample.compute / sample.micro_batches * ended.micro_batches_redone);
    publish(ended);
  }
  for (const TurnCommitted& turn : turns_->add(rank, sample)) watch(turn);
}

// Of an epoch that skips a micro-batch, before anybody can commit in it.
void ControllerCore::State::note_skipped(const MembershipRecord& record) {
  const auto* announced = std::get_if<EpochAnnounced>(&record);
  const auto* decided = std::get_if<EpochDecided>(&record);
  if (turns_ && announced != nullptr) turns_->note_skipped(announced->epoch);
  if (turns_ && decided != nullptr) turns_->note_skipped(decided->epoch);
}

void ControllerCore::State::note_commit(Turn committed, Step step, EpochNumber epoch) {
  if (committed <= committed_) return;
  committed_ = committed;
  step_ = std::max(step_, step);
  commit_epoch_ = std::max(commit_epoch_, epoch);
  if (!membership_) return;
  const Epoch& base = membership_->base();
  const uint32_t working = divider_.worker_count(base.members.size());
  watch(JobProgress{.committed = committed_,
                    .step = step_,
                    .epoch = commit_epoch_,
                    .working = working,
                    .members = static_cast<uint32_t>(base.members.size())});
}

void ControllerCore::State::advance_ledger() {
  if (!ledger_ || !membership_) return;
  GoodputLedger::Moment moment;
  moment.has_committed = committed_ > Turn(0);
  moment.is_repairing = is_repairing();
  const std::vector<Member>& members = membership_->base().members;
  moment.working = divider_.worker_count(members.size());
  moment.healing = roster_.count_coming();
  ledger_->advance(now_, moment);
}

void ControllerCore::State::on(const RecoveryModeSet& event) {
  constexpr const char* kNames[] = {"act", "observe", "off"};
  const bool is_known =
      event.scope.empty() || event.scope == kHangScope || event.scope == kStragglerScope;
  if (!is_known) {
    notice(str("no detector is called ", event.scope, ": there are ", kHangScope, " and ",
               kStragglerScope));
    return;
  }
  set_mode(event);
  journal(event);
  notice(str("recovery mode ", kNames[static_cast<int>(event.mode)],
             event.scope.empty() ? "" : " for ", event.scope));
}

}  // namespace paceline::control
