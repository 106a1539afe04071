// Processes: how they start, end, are started again, heal and join.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "core/control/controller_state.h"

namespace paceline::control {
namespace {

constexpr uint32_t kMaxHealAttempts = 3;
constexpr Duration kRestartPause =
    Duration::seconds(1);  // grows with each restart without progress

// Signals by which a process ends itself: a fault in its own code.
bool is_own_signal(int32_t signal) {
  constexpr int32_t kIll = 4, kTrap = 5, kAbort = 6, kBus = 7, kFloat = 8, kSegv = 11, kSys = 31;
  return signal == kIll || signal == kTrap || signal == kAbort || signal == kBus ||
         signal == kFloat || signal == kSegv || signal == kSys;
}

// By convention of sysexits.h and of shells: wrong arguments, not executable, not found.
bool is_usage_error(int32_t code) { return code == 64 || code == 126 || code == 127; }

// How long a program that does not say how far it is may take to get somewhere.
constexpr Duration kStartUpTime = Duration::seconds(10);

// Ended by itself, not killed from outside and not with its host.
bool ended_by_itself(const RankEnded& event) {
  if (event.was_ended_by_agent) return false;
  return event.how == RankEnded::How::Exited || is_own_signal(event.code);
}

}  // namespace

std::string ControllerCore::State::how_it_ended(const RankEnded& event) {
  std::string text = event.how == RankEnded::How::Exited   ? str("exited with code ", event.code)
                     : event.how == RankEnded::How::Killed ? str("killed by signal ", event.code)
                                                           : str("its process is ending");
  if (event.was_in_micro_batch)
    text += str(", computing micro-batch ", event.micro_batch, " of step ", event.step);
  return text;
}

void ControllerCore::State::on(const HostSaid& event) {
  const auto found = roster_.hosts.find(event.host);
  if (found == roster_.hosts.end() || !found->second.is_connected) return;  // no hello yet
  heard(found->second);
  std::visit([&](const auto& e) { on(event.host, e); }, event.event);
}

void ControllerCore::State::on(HostId, const AgentHello&) {}  // arrives as HostConnected
void ControllerCore::State::on(HostId, const OutputLine& event) { watch(event); }
void ControllerCore::State::on(HostId, const PeerTrouble& event) { note_trouble(event); }
void ControllerCore::State::on(HostId host, const Window& event) { take_window(host, event); }

// --- Start ---

void ControllerCore::State::assign_process(Slot& slot, bool is_joiner) {
  slot.incarnation = slot.incarnation.next();
  roster_.set(slot, SlotState::Starting);
  slot.is_joiner = is_joiner;
  slot.is_cold = false;
  slot.heal_asked_at.reset();
  slot.endpoint = {};
  slot.heal_attempt = 0;
  slot.heal_number = 0;
  slot.unhealed_by.clear();
  slot.step_at_start = step_;
  slot.committed = {};
  slot.begun = 0;
  slot.entered_at.reset();
  slot.assigned_at = now_;
  slot.is_launch_timed = true;
  slot.restart_at.reset();
  ending_in_.erase(slot.id);
  journal_assignment(slot);
}

void ControllerCore::State::journal_assignment(const Slot& slot) {
  journal(SlotAssigned{.rank = slot.rank(),
                       .host = slot.host,
                       .is_joiner = slot.is_joiner,
                       .is_spare = roster_.hosts.at(slot.host).is_spare,
                       .is_cold = slot.is_cold,
                       .restarts = slot.restarts,
                       .failed_with = slot.failed_with});
}

void ControllerCore::State::on(HostId host, const RankStarted& event) {
  Slot* slot = roster_.find(event.rank);
  roster_.hosts.at(host).present.insert(event.rank);
  if (slot == nullptr) return;
  slot->process_id = event.process_id;
  watch(RankPlaced{.rank = event.rank,
                   .host = host,
                   .host_name = host_name(host),
                   .process_id = event.process_id,
                   .is_spare = roster_.hosts.at(host).is_spare});
}

void ControllerCore::State::on(HostId, const RankStartFailed& event) {
  Slot* slot = roster_.find(event.rank);
  if (slot == nullptr || slot->state != SlotState::Starting) return;
  roster_.set(*slot, SlotState::Empty);
  notice(str("cannot start ", describe(*slot), ": ", event.reason));
  if (event.is_permanent || slot->restarts >= spec_.max_restarts) {
    slot->restarts = spec_.max_restarts + 1;
    if (phase == JobPhase::Starting)
      end_job(Verdict::Failed, 127, str("cannot start the program: ", event.reason));
    return;
  }
  ++slot->restarts;
  slot->restart_at = now_ + kRestartPause * slot->restarts;
}

void ControllerCore::State::on(HostId host, const RankUp& event) {
  Slot* slot = roster_.find(event.rank);
  if (slot == nullptr || slot->state != SlotState::Starting) return;
  slot->endpoint = event.endpoint;
  if (slot->endpoint.address == 0) slot->endpoint.address = roster_.hosts.at(host).address;
  slot->process_id = event.process_id;
  if (slot->is_launch_timed) judgement_.launches.add(now_ - slot->assigned_at);
  judgement_.state_bytes = event.state_bytes;
  roster_.set(*slot, SlotState::Up);
}

// The start of a process takes processors and memory from the ranks beside it. While they repair,
// everybody waits for their step, so it waits a little.
void ControllerCore::State::restart_due() {
  if (phase != JobPhase::Running && phase != JobPhase::Starting) return;
  if (roster_.count(SlotState::Empty) == 0) return;
  const bool is_anybody_left = roster_.count(SlotState::Member) > 0;
  const Duration pause = is_repairing() && is_anybody_left ? kRepairLimit : Duration();
  std::set<HostId> changed;
  for (auto& [id, slot] : roster_.slots) {
    if (slot.state != SlotState::Empty) continue;
    if (!slot.restart_at || *slot.restart_at + pause > now_) continue;
    const Host& host = roster_.hosts.at(slot.host);
    if (!host.is_connected || host.state != HostState::Ready) continue;
    if (paths_.is_kept_out(host.id, now_)) continue;
    assign_process(slot, phase == JobPhase::Running);
    changed.insert(slot.host);
  }
  for (const HostId host : changed) desire(host);
}

// --- Membership messages ---

void ControllerCore::State::on(HostId, const FromRank& event) {
  if (membership_) membership_->report(event.rank, event.report);
}

void ControllerCore::State::on(HostId, const RankEntered& event) {
  Slot* slot = roster_.find(event.rank);
  if (!membership_ || slot == nullptr || !slot->is_alive()) return;
  if (slot->state != SlotState::Done) roster_.set(*slot, SlotState::Member);
  if (!slot->entered_at) slot->entered_at = event.committed;
  note_commit(event.committed, event.step, event.epoch);
  membership_->entered(event.rank, event.epoch);
}

void ControllerCore::State::on(HostId, const TagTrouble& event) {
  if (!membership_) return;
  notice(str("sums of turn ", event.turn, " do not hold every micro-batch once (", event.reporter,
             "): reducing the step again with nothing held"));
  membership_->reform({.is_held_void = true});
}

void ControllerCore::State::on(HostId, const RankDone& event) {
  Slot* slot = roster_.find(event.rank);
  if (slot == nullptr || !slot->is_alive()) return;
  const bool was_member = slot->state == SlotState::Member;
  slot->state_digest = event.state_digest;
  done_committed_ = std::max(done_committed_, event.committed);
  if (event.has_left && phase == JobPhase::Running && membership_ && !membership_->base().is_last) {
    // Out of the epoch: it heals or stands by again as a new process.
    membership_->left(event.rank);
    roster_.set(*slot, SlotState::Ending);
    slot->restart_at = now_;
    desire(slot->host);
    return;
  }
  if (was_member || phase == JobPhase::Ending) roster_.set(*slot, SlotState::Done);
}

// All members compare the digest of one step; the minority is repaired. Without a majority nobody
// can tell who is right.
void ControllerCore::State::on(HostId, const RankDigest& event) {
  if (!membership_ || !membership_->base().has(event.rank)) return;
  std::map<RankId, uint64_t>& of_step = digests_[event.step];
  of_step[event.rank] = event.digest;
  for (const Member& member : membership_->base().members)
    if (!of_step.contains(member.rank)) return;
  std::map<uint64_t, int> votes;
  for (const auto& [rank, digest] : of_step) ++votes[digest];
  const auto winner = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (2 * static_cast<size_t>(winner->second) <= of_step.size()) {
    report_split_state(event.step, of_step.size());
    return;
  }
  for (const auto& [rank, digest] : of_step) {
    Slot* slot = roster_.find(rank);
    if (digest == winner->first || slot == nullptr || !slot->is_alive()) continue;
    Incident& incident = open_incident(IncidentKind::Corruption, slot);
    incident.evidence = str("its state digest at step ", event.step, " differs from ",
                            winner->second, " of ", of_step.size(), " ranks");
    slot->incident = incident.id;
    rank_is_dying(*slot);
    publish(incident);
    desire(slot->host);
  }
  digests_.erase(digests_.begin(), digests_.upper_bound(event.step));
}

void ControllerCore::State::report_split_state(Step step, size_t ranks) {
  digests_.erase(digests_.begin(), digests_.upper_bound(step));
  if (std::exchange(is_split_told_, true)) return;
  Incident& incident = open_incident(IncidentKind::Corruption, std::nullopt);
  incident.evidence = str("the state digests of ", ranks, " ranks at step ", step,
                          " differ and no majority has one");
  incident.was_only_observed = true;
  incident.action = ActionKind::Wait;
  incident.reason = "nobody can tell whose state is right: a checkpoint from before can";
  publish(incident);
}

// --- End ---

void ControllerCore::State::on(HostId id, const RankEnded& event) {
  Host& host = roster_.hosts.at(id);
  const bool is_gone = event.how != RankEnded::How::Dying;
  if (is_gone) host.present.erase(event.rank);
  Slot* slot = roster_.find(event.rank);
  if (slot != nullptr) {
    slot->committed = event.committed;
    slot->begun = event.begun;
  }
  if (slot != nullptr && !spec_.is_aware) {
    unaware_rank_ended(*slot, event);
  } else if (slot != nullptr) {
    if (!is_gone && slot->is_alive() && phase == JobPhase::Running &&
        slot->state != SlotState::Done) {
      suspect(*slot, event);
      rank_is_dying(*slot);
    }
    if (is_gone) rank_is_gone(*slot, event);
  }
  readmit_if_clean(host);
}

// Its process cannot take part any more; repair does not wait for it to be gone.
void ControllerCore::State::rank_is_dying(Slot& slot) {
  const bool is_told = open_incident_of(slot) != nullptr;
  if (!is_told && membership_ && membership_->may_be_in_force(slot.rank())) {
    Incident& incident = open_incident(IncidentKind::Crash, &slot);
    incident.evidence = "the kernel has begun to end its process";
    slot.incident = incident.id;
    publish(incident);
  }
  note_lost_work(slot);
  roster_.set(slot, SlotState::Ending);
  silent_to_.erase(slot.rank());
  if (membership_) membership_->lost(slot.rank(), Loss::Ended);
}

// It runs no more, or never comes back: ended now, and started again once it is gone.
void ControllerCore::State::lose_hung_rank(Slot& slot, HangClass hang_class, std::string evidence) {
  if (open_incident_of(slot) == nullptr) {  // else by an earlier life of the controller
    Incident& incident = open_incident(IncidentKind::Hang, &slot);
    incident.hang_class = hang_class;
    incident.evidence = std::move(evidence);
    slot.incident = incident.id;
    if (!membership_->may_be_in_force(slot.rank())) {
      incident.action = ActionKind::RestartInPlace;
      incident.reason = "no member: the others train on, and it is started again";
    }
    publish(incident);
  }
  rank_is_dying(slot);
  desire(slot.host);
}

void ControllerCore::State::rank_is_gone(Slot& slot, const RankEnded& event) {
  const bool was_done = slot.state == SlotState::Done;
  if (phase == JobPhase::Ending || phase == JobPhase::Finished || was_done) {
    if (was_done && phase == JobPhase::Running) return;  // others may still need a digest, not it
    roster_.set(slot, SlotState::Empty);
    return;
  }
  if (slot.is_alive()) rank_is_dying(slot);
  if (Incident* incident = open_incident_of(slot);
      incident != nullptr && incident->kind == IncidentKind::Crash) {
    incident->evidence = how_it_ended(event);
    publish(*incident);
  }
  note_lost_work(slot);
  if (membership_) membership_->lost(slot.rank(), Loss::Ended);
  roster_.set(slot, SlotState::Empty);
  slot.incident.reset();
  ending_in_.erase(slot.id);
  if (roster_.hosts.at(slot.host).state != HostState::Ready) return;
  if (ended_by_itself(event) && event.was_in_micro_batch) blame_micro_batch(slot, event);
  const bool goes_on = phase == JobPhase::Running || phase == JobPhase::Starting;
  if (goes_on && !poison_ && !slot.is_cold) give_up_or_restart(slot, event);
}

int32_t ControllerCore::State::exit_code_of(const RankEnded& event) {
  const int32_t code = event.how == RankEnded::How::Exited ? event.code : 128 + event.code;
  return code == 0 ? 1 : code;
}

// Would the next process end in the same way? Before it has got anywhere, a process that ends by
// itself depends on little but its program, arguments and machine: twice the same code is no
// accident, and a usage error is none the first time. A process has got somewhere with its first
// commit, and one of a program without the library after a while.
bool ControllerCore::State::is_hopeless(Slot& slot, const RankEnded& event) {
  const bool has_got_somewhere = spec_.is_aware
                                     ? slot.entered_at && event.committed > *slot.entered_at
                                     : now_ - slot.assigned_at > kStartUpTime;
  if (!ended_by_itself(event) || has_got_somewhere) {
    slot.failed_with.reset();
    return false;
  }
  const std::optional<int32_t> before = std::exchange(slot.failed_with, exit_code_of(event));
  return before == slot.failed_with ||
         (event.how == RankEnded::How::Exited && is_usage_error(event.code));
}

std::string ControllerCore::State::describe_end(const Slot& slot, const RankEnded& event,
                                                const std::string& judgement) const {
  std::string text = str(describe(slot), " ", how_it_ended(event), judgement);
  for (const std::string& line : event.last_lines) text += "\n  " + line;
  return text;
}

// Restarts without progress are counted: a deterministic failure is not retried for ever.
void ControllerCore::State::give_up_or_restart(Slot& slot, const RankEnded& event) {
  if (is_hopeless(slot, event)) {
    const std::string reason = describe_end(slot, event, str(": ", kHopeless));
    if (phase == JobPhase::Starting || committed_ == Turn(0)) {
      end_job(Verdict::Failed, exit_code_of(event), reason);
    } else {
      slot.restarts = spec_.max_restarts + 1;  // nor is it a cold spare
      notice(str("giving up ", reason));       // the others train on
    }
    return;
  }
  // What the others have done meanwhile is no progress of a process that could not join them.
  const bool is_unhealed = !slot.unhealed_by.empty();
  if (step_ > slot.step_at_start.next() && !is_unhealed) slot.restarts = 0;
  ++slot.restarts;
  if (slot.restarts <= spec_.max_restarts) {
    slot.restart_at = slot.restarts == 1 ? now_ : now_ + kRestartPause * (slot.restarts - 1);
    return;
  }
  const std::string times = str(" ", slot.restarts, " times without progress");
  const std::string reason = is_unhealed ? str(describe(slot), " ", slot.unhealed_by, times)
                                         : describe_end(slot, event, times);
  if (ended_by_itself(event)) {
    end_job(Verdict::Failed, exit_code_of(event), reason);
  } else {
    notice(str("giving up ", reason));
  }
}

// --- Heal and join ---

void ControllerCore::State::advance_joiners() {
  if (phase != JobPhase::Running || !membership_ || membership_->phase() != Membership::Phase::Idle)
    return;
  if (membership_->base().number == EpochNumber(0) || roster_.count(SlotState::Up) == 0) return;
  // Who is in an announced epoch was level then. It is not sent to donors again: they wait for it
  // in that epoch, so they come to no commit at which they could give anything.
  for (auto& [id, slot] : roster_.slots)
    if (slot.state == SlotState::Up && slot.is_joiner && !membership_->may_be_in_force(slot.rank()))
      send_heal(slot);
}

void ControllerCore::State::send_heal(Slot& slot) {
  std::vector<Donor> donors = donors_for(slot);
  if (donors.empty()) return;
  roster_.set(slot, SlotState::Healing);
  slot.heal_asked_at = now_;
  ++slot.heal_attempt;
  // Another than any that an earlier life of the controller gave: what is still said of that one
  // must not count for this.
  slot.heal_number =
      std::max(slot.heal_number + 1, static_cast<uint32_t>(now_.in_nanoseconds() / 1'000'000));
  send(slot.host, Heal{slot.rank(), slot.heal_number, std::move(donors)});
}

bool ControllerCore::State::has_share(const Slot& slot) const {
  const Epoch& base = membership_->base();
  const std::optional<MemberIndex> index = base.index_of(slot.rank());
  return index && std::find(base.owner.begin(), base.owner.end(), *index) != base.owner.end();
}

// Two members on different hosts, not on the joiner's if there is a choice, then those that have
// micro-batches, for the joiner is tried with one of the first donor's; lowest slots first, turned
// by attempt so that a second try asks others.
std::vector<Donor> ControllerCore::State::donors_for(const Slot& joiner) const {
  std::vector<const Slot*> candidates;
  for (const Member& member : membership_->base().members) {
    const auto found = roster_.slots.find(member.rank.slot);
    if (found == roster_.slots.end() || found->second.rank() != member.rank) continue;
    const bool can_give =
        found->second.state == SlotState::Member || found->second.state == SlotState::Done;
    if (can_give) candidates.push_back(&found->second);
  }
  if (candidates.empty()) return {};
  std::rotate(candidates.begin(),
              candidates.begin() + static_cast<ptrdiff_t>(joiner.heal_attempt % candidates.size()),
              candidates.end());
  std::stable_partition(candidates.begin(), candidates.end(),
                        [&](const Slot* slot) { return has_share(*slot); });
  std::stable_partition(candidates.begin(), candidates.end(),
                        [&](const Slot* slot) { return slot->host != joiner.host; });
  std::vector<Donor> donors{{candidates[0]->rank(), candidates[0]->host, candidates[0]->endpoint}};
  const Slot* second = nullptr;
  for (const Slot* candidate : candidates) {
    if (candidate == candidates[0]) continue;
    if (second == nullptr || (second->host == donors[0].host && candidate->host != donors[0].host))
      second = candidate;
  }
  if (second != nullptr) donors.push_back({second->rank(), second->host, second->endpoint});
  return donors;
}

void ControllerCore::State::on(HostId host, const HealProgress& event) {
  Slot* slot = roster_.find(event.rank);
  const bool is_joining =
      slot != nullptr && (slot->state == SlotState::Up || slot->state == SlotState::Healing ||
                          slot->state == SlotState::Level);
  if (!is_joining || (slot->heal_number != 0 && event.attempt != slot->heal_number)) return;
  switch (event.what) {
    case HealProgress::What::Level:
      if (slot->state != SlotState::Healing) return;
      if (slot->heal_asked_at) judgement_.heals.add(now_ - *slot->heal_asked_at);
      roster_.set(*slot, SlotState::Level);
      return;
    case HealProgress::What::ChunkRepaired: {
      Incident& incident = open_incident(IncidentKind::Corruption, slot);
      incident.evidence = str("a chunk from ", event.donor, " was bad: ", event.detail);
      incident.action = ActionKind::Wait;
      incident.reason = "the chunk was taken again; nobody else has noticed";
      publish_as_over(incident);
      return;
    }
    case HealProgress::What::Failed:
      notice(str(describe(*slot), " could not heal from ", event.donor, ": ", event.detail));
      roster_.set(*slot, SlotState::Up);  // asks again, turned to other donors
      if (membership_ && membership_->may_be_in_force(slot->rank())) membership_->reform({});
      if (slot->heal_attempt < kMaxHealAttempts) return;
      roster_.set(*slot, SlotState::Ending);
      slot->unhealed_by = str("could not heal from ", event.donor, ": ", event.detail);
      desire(host);
      return;
  }
}

// One planned epoch at a time: a stop, then joiners, then a better division of work.
void ControllerCore::State::announce_pending() {
  if (phase != JobPhase::Running || !membership_ || !membership_->can_announce()) return;
  const Epoch& base = membership_->base();
  if (base.number == EpochNumber(0) || base.is_last) return;
  const bool is_joining = roster_.count(SlotState::Level) > 0;
  if (!is_joining && !is_stop_wanted_ && !is_rebalance_wanted_) return;
  is_rebalance_wanted_ = false;
  Membership::Plan plan{.members = base.members, .owner = {}, .is_last = is_stop_wanted_};
  if (is_joining && !is_stop_wanted_)
    for (const auto& [id, slot] : roster_.slots)
      if (slot.state == SlotState::Level) plan.members.push_back(roster_.member_of(slot));
  std::sort(plan.members.begin(), plan.members.end(),
            [](const Member& a, const Member& b) { return a.rank < b.rank; });
  set_divider();
  plan.owner = divider_.regular(plan.members, spec_.micro_batches);
  membership_->announce(std::move(plan));
}

}  // namespace paceline::control
