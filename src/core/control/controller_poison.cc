// Poison: a micro-batch in whose computation two ranks have ended by themselves.
//
// The first such end is journaled and the micro-batch goes to another rank, as after any loss. When
// a second rank begins to end in it, no decision is made before it is known how both have ended: a
// matter of milliseconds, and the micro-batch would end a third rank. Then the job stops at its
// last commit, or goes on without the micro-batch. Both are part of the decision of a Prepare, so
// they are journaled and the same for all ranks.
#include <algorithm>
#include <iomanip>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "core/control/controller_state.h"

namespace paceline::control {
namespace {

constexpr size_t kPoisonDeaths = 2;
constexpr int32_t kExitPoison = 93;

std::string name_of(const MicroBatchBlamed& blamed) {
  std::ostringstream seed;
  seed << "0x" << std::hex << std::setfill('0') << std::setw(16) << blamed.seed;
  return str("micro-batch ", blamed.micro_batch, " of step ", blamed.step, " (seed ", seed.str(),
             ")");
}

// What every one of the ranks has said last.
std::string last_words(const std::vector<MicroBatchBlamed>& dead) {
  std::string text;
  for (const MicroBatchBlamed& each : dead) {
    text += str("\n  rank ", each.rank.slot, " on ", each.host_name,
                each.last_lines.empty() ? " said nothing" : ", last lines:");
    for (const std::string& line : each.last_lines) text += "\n    " + line;
  }
  return text;
}

}  // namespace

void ControllerCore::State::restore(const MicroBatchBlamed& blamed) {
  const Skipped micro_batch{blamed.step, blamed.micro_batch};
  std::vector<MicroBatchBlamed>& dead = blamed_[micro_batch];
  dead.push_back(blamed);
  // The Prepare that followed was journaled with it.
  if (dead.size() >= kPoisonDeaths && membership_) found_poison(micro_batch, std::nullopt);
}

// Before the loss of the rank can lead to a decision.
void ControllerCore::State::suspect(const Slot& slot, const RankEnded& event) {
  if (event.was_in_micro_batch && !event.was_ended_by_agent)
    ending_in_[slot.id] = Skipped{event.step, event.micro_batch};
  wait_for_suspects();
}

// Ranks of whom it is not known how they end, and who may be the last that their micro-batch needs
// to be poison. A host that is lost takes its ranks with it: they have not ended by themselves.
bool ControllerCore::State::has_suspects() const {
  std::map<Skipped, size_t> ending;
  for (const auto& [id, micro_batch] : ending_in_) {
    const Slot& slot = roster_.slots.at(id);
    const Host& host = roster_.hosts.at(slot.host);
    const bool will_be_known =
        host.is_connected && host.state == HostState::Ready && host.present.contains(slot.rank());
    if (will_be_known) ++ending[micro_batch];
  }
  return std::any_of(ending.begin(), ending.end(), [this](const auto& entry) {
    const auto known = blamed_.find(entry.first);
    const size_t dead = known == blamed_.end() ? 0 : known->second.size();
    return dead < kPoisonDeaths && dead + entry.second >= kPoisonDeaths;
  });
}

void ControllerCore::State::wait_for_suspects() {
  if (membership_) membership_->hold_back(has_suspects());
}

void ControllerCore::State::blame_micro_batch(const Slot& slot, const RankEnded& event) {
  if (event.micro_batch.value() >= spec_.micro_batches) return;
  const Skipped micro_batch{event.step, event.micro_batch};
  const MicroBatchBlamed blamed{.step = event.step,
                                .micro_batch = event.micro_batch,
                                .rank = slot.rank(),
                                .seed = event.micro_batch_seed,
                                .host_name = host_name(slot.host),
                                .last_lines = event.last_lines};
  std::vector<MicroBatchBlamed>& dead = blamed_[micro_batch];
  dead.push_back(blamed);
  journal(blamed);
  if (dead.size() != kPoisonDeaths || poison_ || !membership_) return;
  found_poison(micro_batch, slot.rank());
  membership_->reform({});
}

// `last`: who has just ended by it; nobody if the journal says so.
void ControllerCore::State::found_poison(const Skipped& micro_batch, std::optional<RankId> last) {
  const std::vector<MicroBatchBlamed>& dead = blamed_.at(micro_batch);
  const std::string evidence =
      str(name_of(dead.front()), " has ended ", dead.size(), " ranks by itself", last_words(dead));
  const bool is_skipped = can_skip(micro_batch);
  if (is_skipped) {
    membership_->skip(micro_batch.step, micro_batch.micro_batch);
  } else {
    poison_ = str("poison: ", evidence);
    membership_->stop_at_target();
  }
  if (!last) return;
  Incident& incident = open_incident(IncidentKind::Poison, std::nullopt);
  incident.rank = last;
  incident.evidence = evidence;
  incident.action = is_skipped ? ActionKind::Skip : ActionKind::Stop;
  incident.reason = is_skipped ? "it is left out of its step: the result is not exact"
                               : "a third rank would end as well";
  publish(incident);
  if (is_skipped) notice(str(name_of(dead.front()), " is left out: the result is not exact"));
}

// A step has at least one micro-batch.
bool ControllerCore::State::can_skip(const Skipped& micro_batch) const {
  if (spec_.poison != PoisonPolicy::Skip) return false;
  size_t found = 0, of_step = 0;
  for (const auto& [other, dead] : blamed_) {
    if (dead.size() < kPoisonDeaths) continue;
    ++found;
    of_step += other.step == micro_batch.step ? 1 : 0;
  }
  return found <= kMaxSkipped && of_step < spec_.micro_batches;
}

void ControllerCore::State::end_poisoned() {
  CHECK(poison_);
  end_job(
      Verdict::Failed, kExitPoison,
      *poison_ + (spec_.checkpoint_directory.empty()
                      ? "\n  with --checkpoint-dir its state would be on disk"
                      : "\n  " + spec_.checkpoint_directory + " has its state: --resume goes on" +
                            " from there, with --poison skip without the micro-batch"));
}

}  // namespace paceline::control
