// Roll back: no rank of an epoch that may be in force is left, so the job continues from disk.
//
//   RollBack --(find_checkpoint)--> CheckpointFound --> every slot starts as it did at first, but
//   from the checkpoint --(all up)--> the first epoch of the rest; epoch numbers go on
//
// The ranks are told by their environment which file it is, so that no two can differ.
#include <algorithm>

#include "base/check.h"
#include "core/control/controller_state.h"
#include "core/control/exit_code.h"

namespace paceline::control {
void ControllerCore::State::restore_job(const JobSpec& spec) {
  if (phase == JobPhase::None) {
    prepare_job(spec);
    phase = JobPhase::Gathering;
    return;
  }
  phase = JobPhase::Starting;
  if (!membership_) return prepare_job(spec);  // it had turned out that the program is aware
  spec_ = spec;
  membership_->stop();
}

void ControllerCore::State::carry_out(const RollBack& effect) { roll_back_due_ = effect.epoch; }

// Not before it is known how the last have ended: two that the same micro-batch has ended would end
// again.
void ControllerCore::State::roll_back() {
  if (phase != JobPhase::Running || !roll_back_due_ || has_suspects()) return;
  roll_back_cause_ = str("every rank of epoch ", *std::exchange(roll_back_due_, std::nullopt),
                         " has ended: no copy of the state is left in memory");
  if (poison_) {
    end_poisoned();
  } else if (spec_.checkpoint_directory.empty()) {
    end_job(Verdict::Failed, kExitRequeue,
            roll_back_cause_ + "; with --checkpoint-dir the job would continue from disk");
  } else if (is_stop_wanted_) {
    end_job(Verdict::Stopped, kExitRequeue, roll_back_cause_ + "; --resume continues from disk");
  } else {
    effects.find_checkpoint = spec_.checkpoint_directory;
  }
}

void ControllerCore::State::on(const CheckpointFound& found) {
  const bool is_wanted = phase == JobPhase::Running && membership_ &&
                         membership_->phase() == Membership::Phase::Stopped;
  if (!is_wanted) return;
  if (found.path.empty()) {
    end_job(Verdict::Failed, kExitRequeue,
            str(roll_back_cause_, ", and ", spec_.checkpoint_directory, " has no checkpoint yet"));
    return;
  }
  if (rolled_back_to_ && found.step > *rolled_back_to_) roll_backs_ = 0;
  rolled_back_to_ = found.step;
  if (++roll_backs_ > spec_.max_restarts) {
    end_job(Verdict::Failed, kExitRequeue,
            str(roll_back_cause_, ", ", roll_backs_, " times since the checkpoint of step ",
                found.step));
    return;
  }
  const uint64_t cost = step_ > found.step ? step_.value() - found.step.value() : 0;
  roll_back_reason_ =
      str("rolled back from step ", step_, " to the checkpoint of step ", found.step, ": ", cost,
          cost == 1 ? " step is" : " steps are", " computed again");
  notice(str(roll_back_cause_, "; ", *roll_back_reason_));
  start_from(found);
}

void ControllerCore::State::start_from(const CheckpointFound& found) {
  auto& environment = spec_.program.environment;
  std::erase_if(environment, [](const auto& each) { return each.first == kResumeFromVariable; });
  environment.emplace_back(kResumeFromVariable, found.path);
  journal(JobSubmitted{spec_});
  membership_->stop();
  step_ = found.step;
  committed_ = found.committed;
  turns_.emplace(spec_.micro_batches);
  digests_.clear();
  silent_to_.clear();
  lost_connections_.clear();
  lost_work_.clear();
  asked_at_.reset();
  phase = JobPhase::Starting;
  gather_until_ = now_ + spec_.join_timeout;
  for (auto& [id, slot] : roster_.slots) {
    roster_.set(slot, SlotState::Empty);  // what may still run there is not desired any more
    if (!slot.is_cold) slot.restart_at = now_;
    slot.restarts = 0;
    slot.incident.reset();  // open until the first commit
  }
  replace_unreachable();
  restart_due();
}

// Does the first epoch wait for this slot?
bool ControllerCore::State::is_awaited(const Slot& slot) const {
  if (!rolled_back_to_ || slot.state != SlotState::Empty) return true;
  const bool is_late = gather_until_ && now_ >= *gather_until_;
  return !is_late && slot.restart_at && roster_.hosts.at(slot.host).state == HostState::Ready;
}

}  // namespace paceline::control
