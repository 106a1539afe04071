// Hosts: streams to their agents, silence, loss and return.
//
// Losing sight of a host is not a fault of it. It is lost only when its agent is silent (or its
// stream closed) and a rank elsewhere misses a rank of it: a host that is frozen or cut off stops
// answering its peers too, while one whose agent alone is stopped goes on committing. Where no rank
// is a member nobody can miss one: there the silence of the agent is enough, if it is long. A
// controller that has just been started waits for the agents of its earlier life.
#include <algorithm>

#include "base/check.h"
#include "core/control/controller_state.h"

namespace paceline::control {
namespace {

// Of an agent of whose ranks no other rank speaks: its silence is all the evidence that there is. A
// busy machine may hold an agent up for a second or two, and to give up one that lives costs a
// start and a heal, or, where the program does not link the library, everybody everything since the
// last checkpoint. A stream that the kernel has closed needs less: an agent that lives connects
// again at once.
constexpr Duration kUnwatchedSilence = Duration::seconds(5);
constexpr Duration kUnwatchedDisconnect = Duration::seconds(2);

}  // namespace

void ControllerCore::State::on(const HostConnected& event) {
  Host& host = roster_.hosts[event.host];
  host.id = event.host;
  host.name = event.hello.host_name;
  host.address = event.hello.address;
  host.is_connected = host.has_connected = true;
  if (host.agent_instance != event.hello.agent_instance) host.present.clear();  // ended with it
  host.agent_instance = event.hello.agent_instance;
  heard(host);
  adopt(host, event.hello);
  if (phase == JobPhase::Ending || phase == JobPhase::Running || phase == JobPhase::Starting)
    desire(host.id);
  readmit_if_clean(host);
}

// Rule 20. It has been a member, and a decision that it has not heard goes on without it: its host
// was away, and the controller has been started again since.
bool ControllerCore::State::is_left_behind(const RankPresence& presence) const {
  return membership_ && presence.epoch != EpochNumber(0) && !presence.is_done &&
         !membership_->may_be_in_force(presence.rank);
}

// What the agent says is there decides what is there: a process that it does not name has ended.
void ControllerCore::State::adopt(Host& host, const AgentHello& hello) {
  host.present.clear();
  for (const RankPresence& presence : hello.ranks) {
    host.present.insert(presence.rank);
    Slot* slot = roster_.find(presence.rank);
    if (slot == nullptr || host.state == HostState::Lost || slot->is_cold ||
        slot->state == SlotState::Ending)
      continue;
    slot->process_id = presence.process_id;
    if (presence.endpoint.port == 0) continue;
    slot->endpoint = presence.endpoint;
    if (is_left_behind(presence)) {
      roster_.set(*slot, SlotState::Ending);
      slot->restart_at = now_;
      continue;
    }
    if (slot->state == SlotState::Starting) roster_.set(*slot, SlotState::Up);
    if (presence.is_done) {
      roster_.set(*slot, SlotState::Done);
      slot->state_digest = presence.state_digest;
    } else if (membership_ && membership_->may_be_in_force(presence.rank) &&
               presence.epoch != EpochNumber(0)) {
      roster_.set(*slot, SlotState::Member);
      if (!slot->entered_at) slot->entered_at = presence.committed;
    }
    note_commit(presence.committed, presence.step, presence.epoch);
    if (membership_) {
      membership_->seen_again(presence.rank);
      membership_->entered(presence.rank, presence.epoch);
      membership_->repeat(presence.rank);
    }
  }
  for (Slot* slot : roster_.on_host(host.id)) {
    const bool is_asked_for = slot->state == SlotState::Starting &&
                              !(membership_ && membership_->may_be_in_force(slot->rank()));
    const bool is_missing = slot->incarnation != Incarnation(0) &&
                            slot->state != SlotState::Empty && !is_asked_for &&
                            !host.present.contains(slot->rank());
    if (!is_missing) continue;
    RankEnded ended;
    ended.rank = slot->rank();
    ended.how = RankEnded::How::Killed;
    ended.was_ended_by_agent = true;
    on(host.id, ended);
  }
}

void ControllerCore::State::on(const HostDisconnected& event) {
  const auto found = roster_.hosts.find(event.host);
  if (found == roster_.hosts.end()) return;
  found->second.is_connected = false;
}

void ControllerCore::State::heard(Host& host) {
  host.heard_at(now_);
  if (!membership_ || host.state != HostState::Lost) return;
  // Before a decision has left its ranks out they are survivors again.
  bool is_back = false;
  if (membership_->phase() == Membership::Phase::Preparing ||
      membership_->phase() == Membership::Phase::Waiting)
    for (Slot* slot : roster_.on_host(host.id))
      if (membership_->may_be_in_force(slot->rank()) && host.present.contains(slot->rank())) {
        is_back = true;
        roster_.set(*slot, SlotState::Member);
        membership_->seen_again(slot->rank());
      }
  if (is_back) {
    host.state = HostState::Ready;
    notice(str(host.name, " is heard again"));
  } else if (!host.present.empty()) {
    desire(host.id);  // ends what was left out
  }
}

void ControllerCore::State::note_trouble(const PeerTrouble& trouble) {
  if (phase != JobPhase::Running || !membership_ || !membership_->may_be_in_force(trouble.peer))
    return;  // ranks that end in order close their connections one after the other
  if (!membership_->may_be_in_force(trouble.reporter)) return;  // left behind, it misses everybody
  switch (trouble.what) {
    case PeerTrouble::What::HeardAgain:
      silent_to_[trouble.peer].erase(trouble.reporter);
      break;
    case PeerTrouble::What::Silent:
    case PeerTrouble::What::ConnectionLost:
      silent_to_[trouble.peer].insert(trouble.reporter);
      break;
  }
  note_lost_connection(trouble);
}

// Does a rank on another host that is itself heard miss a member of this host?
bool ControllerCore::State::is_missed_by_peers(HostId host) const {
  for (const auto& [id, slot] : roster_.slots) {
    if (slot.host != host || !membership_->may_be_in_force(slot.rank())) continue;
    const auto found = silent_to_.find(slot.rank());
    if (found == silent_to_.end()) continue;
    for (const RankId reporter : found->second) {
      const auto other = roster_.slots.find(reporter.slot);
      if (other != roster_.slots.end() && other->second.host != host &&
          other->second.rank() == reporter && other->second.is_alive())
        return true;
    }
  }
  return false;
}

void ControllerCore::State::judge_silence() {
  if (phase != JobPhase::Running || !membership_ || silent_to_.empty()) return;
  for (auto& [id, host] : roster_.hosts) {
    if (host.state == HostState::Lost) continue;
    const Duration silence = now_ - host.last_heard;
    if (is_heard(host) || is_expected_back(host) || !is_missed_by_peers(id)) continue;
    lose_host(host,
              host.is_connected
                  ? str("its agent has been silent for ", silence, " and peers miss its ranks")
                  : str("the stream of its agent is closed and peers miss its ranks"));
  }
}

bool ControllerCore::State::holds_member(HostId host) {
  const std::vector<Slot*> slots = roster_.on_host(host);
  return std::any_of(slots.begin(), slots.end(), [this](const Slot* slot) {
    return membership_->may_be_in_force(slot->rank());
  });
}

bool ControllerCore::State::is_silent_for_good(const Host& host) const {
  const Duration limit = host.is_connected ? kUnwatchedSilence : kUnwatchedDisconnect;
  return now_ - host.last_heard >= spec_.silence_limit &&
         now_ - host.silent_since >= std::max(limit, spec_.silence_limit * 2);
}

// A host that holds processes and no member: they are on their way to be members. Nobody misses it,
// and its slots would stay taken. One that has not come back to a controller that was started again
// may have been lost in its earlier life, and told of then.
void ControllerCore::State::judge_unwatched_hosts() {
  if (phase != JobPhase::Running || !membership_ || !roster_.may_have_joining()) return;
  for (auto& [id, host] : roster_.hosts) {
    if (host.state == HostState::Lost || !host.has_connected) continue;
    if (!is_silent_for_good(host)) continue;
    const std::vector<Slot*> slots = roster_.on_host(id);
    const bool has_process =
        std::any_of(slots.begin(), slots.end(), [](const Slot* slot) { return slot->is_alive(); });
    if (!has_process || holds_member(id)) continue;
    lose_host(host, str("its agent has been silent for ", now_ - host.silent_since,
                        ", and none of its ranks is a member"));
  }
}

void ControllerCore::State::lose_host(Host& host, std::string evidence) {
  host.state = HostState::Lost;
  host.lost_at = now_;
  Incident* known = open_incident_of(host.id);  // by an earlier life of the controller
  Incident& incident =
      known != nullptr ? *known : open_incident(IncidentKind::HostLost, std::nullopt);
  incident.host = host.id;
  incident.evidence = std::move(evidence);
  const bool has_member = holds_member(host.id);
  for (Slot* slot : roster_.on_host(host.id)) {
    if (!slot->is_alive()) continue;
    const RankId rank = slot->rank();
    roster_.set(*slot, SlotState::Ending);
    slot->incident = incident.id;
    note_lost_work(*slot);
    silent_to_.erase(rank);
    membership_->lost(rank, Loss::Silent);
  }
  if (has_member) {
    publish(incident);
    return;
  }
  incident.action = ActionKind::Wait;
  incident.reason = "no member: the others train on, and its slots start again there or elsewhere";
  publish_as_over(incident);
}

// A lost host is used again once its agent has reported every process of ours ended.
void ControllerCore::State::readmit_if_clean(Host& host) {
  if (host.state != HostState::Lost || !host.is_connected || !host.present.empty()) return;
  host.state = HostState::Ready;
  host.heard_at(now_);
  if (host.lost_at) judgement_.absences.add(now_ - *host.lost_at);
  notice(str(host.name, " is back and clean",
             host.is_spare && !spec_.has_hot_spares ? ": a cold spare from now on" : ""));
  for (Slot* slot : roster_.on_host(host.id)) {
    if (slot->state != SlotState::Ending && slot->state != SlotState::Empty) continue;
    if (membership_) membership_->lost(slot->rank(), Loss::Ended);
    roster_.set(*slot, SlotState::Empty);
    slot->incident.reset();
    if (!slot->is_cold) slot->restart_at = now_;
  }
}

// A target that does not answer its Prepare holds up everybody. While a Prepare runs peers have
// closed their connections, so they cannot miss anybody: the missing answer is the evidence.
void ControllerCore::State::judge_unanswered() {
  if (phase != JobPhase::Running || !membership_ ||
      membership_->phase() != Membership::Phase::Preparing) {
    asked_at_.reset();
    return;
  }
  if (!asked_at_ || asked_epoch_ != membership_->preparing()) {
    asked_at_ = now_;
    asked_epoch_ = membership_->preparing();
  }
  if (now_ - *asked_at_ < answer_limit()) return;
  for (const RankId rank : membership_->unanswered()) {
    Slot* slot = roster_.find(rank);
    if (slot == nullptr || !slot->is_alive()) continue;
    Host& host = roster_.hosts.at(slot->host);
    if (is_expected_back(host)) continue;
    if (!is_heard(host)) {
      if (host.state == HostState::Ready)
        lose_host(host, "its agent is silent and its ranks do not answer a Prepare");
      continue;
    }
    lose_hung_rank(*slot, HangClass::Stopped,
                   str("it has not answered a Prepare for ", now_ - *asked_at_));
  }
}

Duration ControllerCore::State::entry_limit() const {
  const Duration step = judgement_.history.median_step().value_or(Duration());
  return std::max(kEntryLimit, step * kEntrySteps);
}

// A joiner that is stopped, or has lost its donor, between its announcement and the commit that
// makes it a member: those who are in the new epoch wait for it there, and it may be in none. A new
// epoch leaves out who is behind, and finds who does not answer.
void ControllerCore::State::judge_unentered() {
  if (phase != JobPhase::Running || !membership_ || !membership_->is_partly_entered()) {
    half_entered_at_.reset();
    return;
  }
  if (!half_entered_at_ || half_entered_turn_ != committed_) {
    half_entered_at_ = now_;
    half_entered_turn_ = committed_;
  }
  if (now_ - *half_entered_at_ < entry_limit()) return;
  half_entered_at_.reset();
  notice(str("not all members of epoch ", membership_->planned()->number,
             " have entered it: forming a new epoch without who is behind"));
  membership_->reform({});
}

void ControllerCore::State::desire(HostId id) {
  Host& host = roster_.hosts.at(id);
  // Above those of an earlier life of the controller on this machine, too.
  host.desired_sequence =
      std::max(host.desired_sequence + 1, static_cast<uint64_t>(now_.in_nanoseconds()));
  Desired desired{.sequence = host.desired_sequence,
                  .program = spec_.program,
                  .ranks = {},
                  .end_grace = end_grace_};
  uint32_t local_rank = 0;
  for (const Slot* slot : roster_.on_host(id)) {
    const bool is_wanted = slot->is_alive() && host.state == HostState::Ready;
    if (is_wanted)
      desired.ranks.push_back({.rank = slot->rank(),
                               .local_rank = local_rank,
                               .world_size = world_size_ != 0 ? world_size_ : spec_.ranks(),
                               .is_joiner = slot->is_joiner});
    ++local_rank;
  }
  send(id, std::move(desired));
}

}  // namespace paceline::control
