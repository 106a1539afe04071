// Judgement of ranks that live: hangs and stragglers, and what is done about them. Detection is in
// core/recovery; here its findings become incidents, lost ranks and divisions of work.
#include <algorithm>

#include "base/check.h"
#include "core/control/controller_state.h"
#include "core/recovery/choice.h"
#include "core/recovery/robust.h"

namespace paceline::control {
namespace {

constexpr Duration kInterval = Duration::milliseconds(50);
// All wait for ever: the same members form a new epoch, at most this often.
constexpr Duration kReformInterval = Duration::seconds(30);
constexpr uint64_t kTurnsBetweenRebalances = 25;
constexpr size_t kStepsBefore = 7;  // a straggler has been slow for longer when it is found
constexpr size_t kStepsAfter = 12;
constexpr uint64_t kTurnsUntilChecked = 14;
constexpr uint32_t kMostDistrustSamples = 10'000;
constexpr int64_t kLeastGainPermille = 10;
constexpr int64_t kRefinementPermille = 50;
// Until they are measured.
constexpr Duration kUsualLaunch = Duration::seconds(2);
constexpr Duration kUsualHeal = Duration::seconds(1);
constexpr uint64_t kUsualHealBytesPerMs = 200'000;
constexpr uint64_t kLongestUsualHealMs = 3'600'000;  // whatever size a rank says
constexpr Duration kUsualAbsence = Duration::seconds(600);

std::set<RankId> ranks_of(const std::map<RankId, int64_t>& costs) {
  std::set<RankId> ranks;
  for (const auto& [rank, cost] : costs) ranks.insert(rank);
  return ranks;
}

}  // namespace

void ControllerCore::State::set_mode(const RecoveryModeSet& change) {
  if (change.scope.empty()) {
    spec_.recovery = change.mode;
    judgement_.modes.clear();
  } else {
    judgement_.modes[change.scope] = change.mode;
  }
  judgement_.decided_for.reset();
}

RecoveryMode ControllerCore::State::mode_of(const char* scope) const {
  const auto found = judgement_.modes.find(scope);
  return found == judgement_.modes.end() ? spec_.recovery : found->second;
}

// --- What is measured ---

void ControllerCore::State::measure(RankId rank, const RankSample& sample) {
  const Slot* slot = roster_.find(rank);
  if (slot == nullptr || !slot->is_alive()) return;  // nothing is judged by the last it has said
  judgement_.measured.insert(rank);
  judgement_.history.add(rank, sample);
  judgement_.hangs.add_sample(rank, sample);
  judgement_.stragglers.add(rank, sample);
}

void ControllerCore::State::forget_the_gone() {
  if (judgement_.turnover == roster_.turnover()) return;
  judgement_.turnover = roster_.turnover();
  std::erase_if(judgement_.measured, [this](RankId rank) {
    const Slot* slot = roster_.find(rank);
    if (slot != nullptr && slot->is_alive()) return false;
    judgement_.history.forget(rank);
    judgement_.stragglers.forget(rank);
    judgement_.relieved.erase(rank);
    end_slowness(rank, "its process has ended");
    return true;
  });
}

Duration ControllerCore::State::launch_time() const {
  return judgement_.launches.median().value_or(kUsualLaunch);
}

// Every heal moves the same state, so what it has taken tells what it will take.
Duration ControllerCore::State::heal_time() const {
  if (const std::optional<Duration> measured = judgement_.heals.median()) return *measured;
  const uint64_t milliseconds =
      std::min(judgement_.state_bytes / kUsualHealBytesPerMs, kLongestUsualHealMs);
  return kUsualHeal + Duration::milliseconds(static_cast<int64_t>(milliseconds));
}

// --- Every interval ---

void ControllerCore::State::judge() {
  if (phase != JobPhase::Running || !membership_) return;
  std::optional<Instant>& last_at = judgement_.last_at;
  if (last_at && now_ < *last_at + kInterval) return;
  last_at = now_;
  forget_the_gone();
  end_observed_hangs();
  if (membership_->phase() != Membership::Phase::Idle) return;
  if (membership_->base().number == EpochNumber(0)) return;
  judge_hangs();
  if (membership_->phase() == Membership::Phase::Idle) judge_pace();
}

// --- Hangs ---

void ControllerCore::State::judge_hangs() {
  const RecoveryMode mode = mode_of(kHangScope);
  if (mode == RecoveryMode::Off) return;
  std::vector<RankId> members;
  for (const Member& member : membership_->base().members) {
    const Slot* slot = roster_.find(member.rank);
    if (slot != nullptr && slot->is_alive()) members.push_back(member.rank);
  }
  judge_joiners(members);
  if (members.size() < 2) return;  // nobody else to tell a hang from a long step by
  for (const recovery::HangFinding& finding :
       judgement_.hangs.judge(now_, members, judgement_.history)) {
    if (!finding.rank) {
      if (mode == RecoveryMode::Act) judge_endless_collective(finding);
      continue;
    }
    Slot* slot = roster_.find(*finding.rank);
    if (slot == nullptr || slot->state != SlotState::Member) continue;
    if (finding.may_act && mode == RecoveryMode::Act) {
      lose_hung_rank(*slot, finding.hang_class, finding.evidence);
    } else {
      observe_hang(*slot, finding);
    }
  }
}

// Nobody waits for a joiner before it is announced, so nobody misses it: its slot would stay empty.
void ControllerCore::State::judge_joiners(const std::vector<RankId>& members) {
  if (!roster_.may_have_joining()) return;
  for (auto& [id, slot] : roster_.slots) {
    if (!slot.is_joining() || membership_->may_be_in_force(slot.rank())) continue;
    const std::optional<recovery::HangFinding> finding =
        judgement_.hangs.judge_joiner(now_, slot.rank(), members, judgement_.history);
    if (!finding) continue;
    if (finding->may_act && mode_of(kHangScope) == RecoveryMode::Act) {
      slot.unhealed_by = str("was hung ", finding->evidence);
      lose_hung_rank(slot, finding->hang_class, finding->evidence);
    } else {
      observe_hang(slot, *finding);
    }
  }
}

void ControllerCore::State::observe_hang(Slot& slot, const recovery::HangFinding& finding) {
  if (judgement_.observed_hangs.contains(slot.rank())) return;
  Incident& incident = open_incident(IncidentKind::Hang, &slot);
  judgement_.observed_hangs[slot.rank()] = incident.id;
  incident.hang_class = finding.hang_class;
  incident.evidence = finding.evidence;
  incident.was_only_observed = true;
  incident.action = ActionKind::Wait;
  incident.alternatives = price_loss_of({&slot}, 0);
  incident.reason = finding.may_act ? "the recovery mode of hangs is observe: it would be ended "
                                      "and started again"
                                    : "whoever debugs it wants it as it is";
  publish(incident);
}

void ControllerCore::State::end_observed_hangs() {
  std::erase_if(judgement_.observed_hangs, [this](const auto& entry) {
    Incident* incident = incidents_.find(entry.second);
    if (incident == nullptr) return true;
    const Slot* slot = roster_.find(entry.first);
    const bool is_gone = slot == nullptr || !slot->is_alive();
    if (!is_gone && !judgement_.hangs.has_moved_since(entry.first, incident->detected))
      return false;
    publish_as_over(*incident);
    return true;
  });
}

// All have entered the collective and it does not end: no rank is to blame, so the same members
// try it again in a new epoch.
void ControllerCore::State::judge_endless_collective(const recovery::HangFinding& finding) {
  for (const auto& [id, slot] : roster_.slots)
    if (slot.state == SlotState::Healing || slot.state == SlotState::Level) return;
  std::optional<Instant>& last = judgement_.reformed_at;
  if (last && now_ < *last + kReformInterval) return;
  last = now_;
  Incident& incident = open_incident(IncidentKind::Hang, std::nullopt);
  incident.hang_class = finding.hang_class;
  incident.evidence = finding.evidence;
  incident.action = ActionKind::RestartInPlace;
  incident.reason = "the same members reduce the step again in a new epoch";
  publish(incident);
  membership_->reform({});
}

// --- Pace ---

void ControllerCore::State::judge_pace() {
  const RecoveryMode mode = mode_of(kStragglerScope);
  if (mode == RecoveryMode::Off || committed_ <= judgement_.judged_pace_at) return;
  judgement_.judged_pace_at = committed_;
  std::vector<RankId> found;
  for (const recovery::PaceChange& change : judgement_.stragglers.update()) {
    if (change.is_slow) {
      begin_slowness(change);
      found.push_back(change.rank);
    } else {
      end_slowness(change.rank, change.evidence);
    }
  }
  end_earlier_slowness();
  if (const std::optional<std::string> imbalance = judgement_.stragglers.take_imbalance()) {
    Incident& incident = open_incident(IncidentKind::Imbalance, std::nullopt);
    incident.evidence = *imbalance;
    incident.was_only_observed = true;
    incident.reason = "no rank is at fault, so none is relieved";
    publish(incident);
    incidents_.close(incident.id);
  }
  follow_rebalance();
  if (membership_->can_announce() && !is_rebalance_wanted_) divide_by_pace();
  for (const RankId rank : found) {
    const auto known = judgement_.slow_incidents.find(rank);
    if (known == judgement_.slow_incidents.end()) continue;
    if (const Incident* incident = incidents_.find(known->second)) publish(*incident);
  }
}

void ControllerCore::State::begin_slowness(const recovery::PaceChange& change) {
  Slot* slot = roster_.find(change.rank);
  if (slot == nullptr || judgement_.slow_incidents.contains(change.rank)) return;
  Incident& incident = open_incident(IncidentKind::Straggler, slot);
  judgement_.slow_incidents[change.rank] = incident.id;
  incident.evidence = change.evidence;
  incident.was_only_observed = mode_of(kStragglerScope) == RecoveryMode::Observe;
  incident.reason = "its work is divided again once the last change of epoch is old enough";
}

void ControllerCore::State::end_slowness(RankId rank, const std::string& why) {
  const auto found = judgement_.slow_incidents.find(rank);
  if (found == judgement_.slow_incidents.end()) return;
  if (Incident* incident = incidents_.find(found->second)) publish_as_over(*incident);
  judgement_.slow_incidents.erase(found);
  notice(str(rank, " is slow no more: ", why));
}

// What an earlier life of the controller has found. It counts as slow until it is measured again,
// also if the division of work made up for it (then its incident has ended): found slow once more,
// it is nothing new.
void ControllerCore::State::restore_slowness(const Incident& incident) {
  judgement_.slow_incidents[*incident.rank] = incident.id;
  if (incident.action == ActionKind::SwapSpare) judgement_.relieved.insert(*incident.rank);
}

void ControllerCore::State::resume_slowness() {
  for (const auto& [rank, id] : judgement_.slow_incidents) {
    judgement_.slow_earlier.insert(rank);
    judgement_.measured.insert(rank);  // so that it is forgotten if it is gone
    const Incident* incident = incidents_.find(id);
    if (incident == nullptr || !membership_ || incident->action == ActionKind::Wait) continue;
    const std::optional<Epoch>& planned = membership_->planned();  // announced as it was journaled
    incidents_.await_commit_in(id, planned ? planned->number : membership_->base().number);
  }
}

void ControllerCore::State::end_earlier_slowness() {
  std::erase_if(judgement_.slow_earlier, [this](RankId rank) {
    if (judgement_.stragglers.slow().contains(rank)) return true;  // as any other from now on
    if (!judgement_.stragglers.has_measured(rank)) return false;
    const auto found = judgement_.slow_incidents.find(rank);
    if (found == judgement_.slow_incidents.end()) return true;
    if (incidents_.find(found->second) == nullptr) {
      judgement_.slow_incidents.erase(found);
    } else {
      end_slowness(rank, "it is measured at the pace of the others");
    }
    return true;
  });
}

// Costs of all members; those without a measured one count like the middle of the others.
std::map<RankId, int64_t> ControllerCore::State::costs_of_members() const {
  std::map<RankId, int64_t> costs = judgement_.stragglers.costs_ns();
  if (costs.empty()) return costs;
  std::vector<int64_t> known;
  known.reserve(costs.size());
  for (const auto& [rank, cost] : costs) known.push_back(cost);
  const int64_t middle = recovery::median_of(std::move(known));
  for (const Member& member : membership_->base().members) costs.emplace(member.rank, middle);
  return costs;
}

// What a choice is about: the members and how their costs compare, to 1 %.
uint64_t ControllerCore::State::subject_of_pace(const std::map<RankId, int64_t>& costs) const {
  int64_t least = INT64_MAX;
  for (const auto& [rank, cost] : costs) least = std::min(least, cost);
  Digest subject;
  subject.add(membership_->base().number.value());
  for (const auto& [rank, cost] : costs)
    subject.add(rank.slot.value()).add((cost * 100 + least / 2) / least);
  return subject.value();
}

// The division in force is compared with the best for what is measured now, whatever has changed:
// a rank that has become slow, one that is back at pace, or a controller that has just started and
// finds work divided by costs that hold no more.
void ControllerCore::State::divide_by_pace() {
  const Epoch& base = membership_->base();
  const std::map<RankId, int64_t> costs = costs_of_members();
  if (base.owner.empty() || costs.empty()) return;
  const uint64_t subject = subject_of_pace(costs);
  if (judgement_.decided_for == subject) return;

  const std::map<RankId, int64_t>& slow = judgement_.stragglers.slow();
  const uint64_t last = judgement_.rebalanced_at.value_or(Turn(0)).value();
  const bool is_soon = judgement_.rebalanced_at && !slow.empty() &&
                       committed_.value() < last + kTurnsBetweenRebalances;
  const bool may_act = mode_of(kStragglerScope) == RecoveryMode::Act;
  if (may_act) divider_.set_costs(costs);
  if (is_soon && may_act) return;  // judged again when it may be done
  judgement_.decided_for = subject;
  set_divider();
  recovery::PaceQuestion question = ask_about_pace(costs);
  // What was relieved already is not refined for little.
  const bool is_refinement = !slow.empty() && judgement_.rebalanced_for == ranks_of(slow);
  question.least_gain_permille = is_refinement ? kRefinementPermille : kLeastGainPermille;
  const std::vector<Alternative> alternatives = recovery::price_pace(question);
  const Alternative& chosen = alternatives[recovery::choose(alternatives)];
  const std::string reason =
      str(may_act ? "" : "only observed; else: ", recovery::reason_of(alternatives, chosen));
  for (const auto& [rank, id] : judgement_.slow_incidents) {
    Incident* incident = incidents_.find(id);
    if (incident == nullptr || is_refinement) continue;
    incident->alternatives = alternatives;
    incident->action = may_act ? chosen.action : ActionKind::Wait;
    incident->reason = reason;
    if (incident->detected != now_) publish(*incident);
  }
  if (may_act) carry_out_pace(chosen);
}

recovery::PaceQuestion ControllerCore::State::ask_about_pace(
    const std::map<RankId, int64_t>& costs) const {
  const Epoch& base = membership_->base();
  const auto busy = [&](const BalancedDivider& divider, const std::map<RankId, int64_t>& of) {
    const auto owner = divider.regular(base.members, base.micro_batches());
    return Duration::nanoseconds(makespan_ns(base.members, owner, of));
  };
  std::vector<int64_t> all;
  all.reserve(costs.size());
  for (const auto& [rank, cost] : costs) all.push_back(cost);
  const int64_t middle = recovery::median_of(std::move(all));
  std::map<RankId, int64_t> alike;
  for (const auto& [rank, cost] : costs) alike[rank] = middle;
  BalancedDivider plain = divider_;
  plain.set_costs(alike);
  BalancedDivider measured = divider_;
  measured.set_costs(costs);

  recovery::PaceQuestion question;
  question.ranks = static_cast<uint32_t>(divider_.workers_of(base.members).size());
  question.now = Duration::nanoseconds(makespan_ns(base.members, base.owner, costs));
  question.ideal = busy(plain, alike);
  question.rebalanced = busy(measured, costs);
  const Duration step = judgement_.history.median_step().value_or(Duration());
  question.overhead = std::max(Duration(), step - question.now);
  question.repair = restart_time();
  const auto& slow = judgement_.stragglers.slow();
  if (!slow.empty() && base.members.size() >= question.ranks + slow.size()) {
    std::set<RankId> relieved = judgement_.relieved;
    for (const auto& [rank, cost] : slow) relieved.insert(rank);
    measured.set_standby(standby_with(relieved));
    question.swapped = busy(measured, costs);
  }
  return question;
}

void ControllerCore::State::carry_out_pace(const Alternative& chosen) {
  const std::map<RankId, int64_t>& slow = judgement_.stragglers.slow();
  if (slow.empty() && chosen.action == ActionKind::SwapSpare) return;
  if (chosen.action == ActionKind::SwapSpare)
    for (const auto& [rank, cost] : slow) judgement_.relieved.insert(rank);
  if (chosen.action != ActionKind::Rebalance && chosen.action != ActionKind::SwapSpare) return;
  is_rebalance_wanted_ = true;
  judgement_.rebalanced_at = committed_;
  judgement_.rebalanced_for = ranks_of(slow);
  judgement_.check.reset();
  if (slow.empty()) {
    notice(str("work is given back: ", chosen.why));
    return;
  }
  Judgement::Check check;
  check.ranks = ranks_of(slow);
  check.step_before = judgement_.history.median_of_last(kStepsBefore).value_or(Duration());
  judgement_.check = std::move(check);
}

// From the announcement to the proof that it has helped. One that has not is taken back, and what
// led to it is not believed for a while.
void ControllerCore::State::follow_rebalance() {
  std::optional<Judgement::Check>& check = judgement_.check;
  if (!check || is_rebalance_wanted_) return;
  if (!check->epoch) {
    check->epoch =
        membership_->planned() ? membership_->planned()->number : membership_->base().number;
    for (const auto& [rank, id] : judgement_.slow_incidents)
      if (incidents_.find(id) != nullptr) incidents_.await_commit_in(id, *check->epoch);
  }
  if (membership_->base().number < *check->epoch) return;
  if (membership_->base().number > *check->epoch) {
    check.reset();  // other members: nothing to compare with
    return;
  }
  if (!check->in_force_at) check->in_force_at = committed_;
  if (committed_.value() < check->in_force_at->value() + kTurnsUntilChecked) return;
  const Duration after = judgement_.history.median_of_last(kStepsAfter).value_or(Duration());
  const Duration noise = judgement_.history.deviation_of_last(kStepsAfter) / 2;
  if (after < check->step_before + noise || check->step_before == Duration()) {
    judgement_.distrust_samples = 100;
  } else {
    notice(str("the new division of work takes ", after, " a step, the old one ",
               check->step_before, ": taken back"));
    for (const RankId rank : check->ranks) {
      judgement_.stragglers.distrust(rank, judgement_.distrust_samples);
      judgement_.relieved.erase(rank);
      end_slowness(rank, "another division of work does not help");
    }
    judgement_.distrust_samples = std::min(judgement_.distrust_samples * 2, kMostDistrustSamples);
  }
  check.reset();
}

// Spares stand by, and so do the relieved, each in exchange for a spare.
std::set<RankId> ControllerCore::State::standby_with(const std::set<RankId>& relieved) const {
  std::set<RankId> standby;
  if (spec_.has_hot_spares)  // else a spare that has a process has it in another's place
    for (const auto& [id, slot] : roster_.slots)
      if (roster_.hosts.at(slot.host).is_spare) standby.insert(slot.rank());
  for (const RankId rank : relieved) {
    const Slot* slot = nullptr;
    if (const auto found = roster_.slots.find(rank.slot);
        found != roster_.slots.end() && found->second.rank() == rank)
      slot = &found->second;
    if (slot == nullptr || !slot->is_alive()) continue;
    const auto spare = std::find_if(standby.begin(), standby.end(), [&](RankId other) {
      return !relieved.contains(other) && membership_ && membership_->base().has(other);
    });
    if (spare == standby.end()) break;
    standby.erase(spare);
    standby.insert(rank);
  }
  return standby;
}

// --- What a loss costs ---

std::vector<Alternative> ControllerCore::State::price_loss_of(const std::vector<Slot*>& lost,
                                                              uint32_t redone) const {
  const uint32_t members = static_cast<uint32_t>(membership_->base().members.size());
  const uint32_t working = std::max(1u, world_size_ != 0 ? world_size_ : spec_.ranks());
  recovery::LossQuestion question;
  question.ranks = working;
  question.lost = std::clamp(static_cast<uint32_t>(lost.size()), 1u, working);
  const uint32_t needed = working - question.lost;
  question.standing_by = members > needed ? members - needed : 0;
  question.cold_spares = static_cast<uint32_t>(count_idle_spares());
  question.micro_batches_redone = redone;
  if (const std::map<RankId, int64_t> costs = costs_of_members(); !costs.empty())
    question.micro_batch = Duration::nanoseconds(costs.begin()->second);
  question.launch = launch_time();
  question.heal = heal_time();
  question.state_bytes = judgement_.state_bytes;
  question.step = judgement_.history.median_step().value_or(Duration());
  const auto most = [&](uint32_t ranks) {
    return int64_t{(spec_.micro_batches + ranks - 1) / std::max(1u, ranks)};
  };
  question.shrunk_step =
      question.step + question.micro_batch * (needed == 0 ? 0 : most(needed) - most(working));
  question.absence = judgement_.absences.median().value_or(kUsualAbsence);
  question.restart_after = Duration();
  for (const Slot* slot : lost) {  // the last of them decides
    const std::optional<Duration> after = restart_after(*slot);
    if (question.restart_after)
      question.restart_after = after ? std::max(*after, *question.restart_after) : after;
  }
  return recovery::price_loss(question);
}

}  // namespace paceline::control
