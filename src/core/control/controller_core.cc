#include "core/control/controller_core.h"

#include <algorithm>

#include "base/check.h"
#include "core/control/controller_state.h"

namespace paceline::control {

ControllerCore::ControllerCore() : state_(std::make_unique<State>()) {}
ControllerCore::~ControllerCore() = default;

void ControllerCore::restore(const JournalRecord& record) { state_->restore(record); }
void ControllerCore::step(Instant now, const Event& event) { state_->step(now, event); }
Effects ControllerCore::take_effects() { return std::exchange(state_->effects, {}); }
std::optional<Instant> ControllerCore::next_deadline() const { return state_->deadline; }
bool ControllerCore::is_finished() const { return state_->phase == JobPhase::Finished; }
uint64_t ControllerCore::digest() const { return state_->digest(); }

namespace {

// An event that comes this much after the deadline given out says that the controller did not run.
constexpr Duration kOwnLateness = Duration::milliseconds(20);
// The longest that it sleeps while a job runs.
constexpr Duration kLongestSleep = Duration::seconds(1);

}  // namespace

void ControllerCore::State::restore(const JournalRecord& record) {
  if (const auto* submitted = std::get_if<JobSubmitted>(&record)) {
    restore_job(submitted->spec);
  } else if (const auto* named = std::get_if<HostNamed>(&record)) {
    Host& host = roster_.hosts[named->host];
    host.id = named->host;
    host.name = named->name;
  } else if (const auto* assigned = std::get_if<SlotAssigned>(&record)) {
    const bool is_first = !roster_.slots.contains(assigned->rank.slot);
    Slot& slot = roster_.add(assigned->rank.slot);
    slot.host = assigned->host;
    slot.incarnation = assigned->rank.incarnation;
    slot.is_joiner = assigned->is_joiner;
    slot.restarts = assigned->restarts;
    slot.failed_with = assigned->failed_with;
    if (!spec_.is_aware) attempts_ = std::max(attempts_, assigned->restarts);
    slot.is_cold = assigned->is_cold;
    roster_.set(slot, slot.is_cold ? SlotState::Empty : SlotState::Starting);
    roster_.hosts[assigned->host].is_spare = assigned->is_spare;
    if (!slot.is_cold) paths_.restore_let_in(assigned->host);
    if (is_first && !assigned->is_spare) ++world_size_;
    if (phase == JobPhase::Gathering) phase = JobPhase::Starting;
  } else if (const auto* membership = std::get_if<MembershipRecord>(&record)) {
    membership_->restore(*membership);
    note_skipped(*membership);
    phase = JobPhase::Running;
  } else if (const auto* blamed = std::get_if<MicroBatchBlamed>(&record)) {
    restore(*blamed);
  } else if (const auto* kept = std::get_if<HostKeptOut>(&record)) {
    paths_.restore(kept->host, kept->pause);
  } else if (const auto* changed = std::get_if<IncidentChanged>(&record)) {
    restore_incident(changed->incident);
  } else if (const auto* mode = std::get_if<RecoveryModeSet>(&record)) {
    set_mode(*mode);
  } else if (std::holds_alternative<StopWanted>(record)) {
    is_stop_wanted_ = true;
  } else if (const auto* finished = std::get_if<JobFinished>(&record)) {
    phase = JobPhase::Ending;
    verdict_ = finished->verdict;
    exit_code_ = finished->exit_code;
  }
}

void ControllerCore::State::step(Instant now, const Event& event) {
  CHECK(now >= now_, "time went back by ", now_ - now);
  now_ = now;
  if (deadline && now_ - *deadline > kOwnLateness) was_blind(now_ - *deadline);
  std::visit([this](const auto& e) { on(e); }, event);
  drive();
  deadline = next_deadline();
}

// What did not run did not hear: every silence is shorter by as much.
void ControllerCore::State::was_blind(Duration blind) {
  for (auto& [id, host] : roster_.hosts) {
    host.last_heard =
        std::min(now_, std::max(host.last_heard + blind, now_ - spec_.silence_limit / 2));
    host.silent_since = std::min(now_, host.silent_since + blind);
  }
  for (LostConnection& lost : lost_connections_) lost.due = lost.due + blind;
  if (asked_at_) asked_at_ = std::min(now_, *asked_at_ + blind);
  if (half_entered_at_) half_entered_at_ = std::min(now_, *half_entered_at_ + blind);
  judgement_.hangs.credit_all(blind);
}

// What may have become possible by any event. Each part does nothing when nothing is due. Limits
// are judged here too: while agents report, one event follows the other and no Tick ever comes.
void ControllerCore::State::drive() {
  if (phase == JobPhase::None || phase == JobPhase::Finished) return;
  wait_for_suspects();
  carry_out_membership();
  roll_back();
  place_if_gathered();
  start_if_all_up();
  restart_due();
  replace_abandoned();
  judge_silence();
  judge_lost_connections();
  judge_unanswered();
  judge_unentered();
  judge_unwatched_hosts();
  advance_joiners();
  judge();
  announce_pending();
  carry_out_membership();
  roll_back();
  finish_if_all_done();
  start_next_attempt();
  finish_unaware();
  shut_down_if_clean();
  advance_ledger();
}

void ControllerCore::State::on(const Restarted&) {
  for (auto& [id, host] : roster_.hosts) host.heard_at(now_);
  for (auto& [id, slot] : roster_.slots) slot.assigned_at = now_;  // at the latest
  resume_slowness();
  if (membership_) {
    set_divider();
    membership_->resume();
    // A slot gets its next process only when the one before has ended.
    for (const RankId member : membership_->open_members())
      if (roster_.find(member) == nullptr) membership_->lost(member, Loss::Ended);
  }
  resume_incidents();
  if (!roster_.slots.empty())
    tell_started();  // this is how a watcher knows who tells it what follows
  resume_kept_out();
  if (phase == JobPhase::Gathering) gather_until_ = now_ + spec_.join_timeout;
  if (is_stop_wanted_ && !spec_.is_aware) stop_unaware();
}

void ControllerCore::State::on(const Tick&) { judge_unaware_hosts(); }

std::optional<Instant> ControllerCore::State::next_deadline() const {
  if (phase == JobPhase::None || phase == JobPhase::Finished) return std::nullopt;
  Instant next = now_ + kLongestSleep;
  const auto consider = [&](Instant when) {
    if (when > now_) next = std::min(next, when);
  };
  // A host that is silent already is judged when somebody misses its ranks: that is an event. Where
  // nobody does, the longest sleep is short enough.
  for (const auto& [id, host] : roster_.hosts) {
    consider(host.last_heard + spec_.silence_limit);
    if (!host.has_connected) consider(host.last_heard + kReturnLimit);
  }
  for (const LostConnection& lost : lost_connections_) consider(lost.due);
  if (const std::optional<Instant> back = paths_.next_return(now_)) consider(*back);
  if (roster_.count(SlotState::Empty) > 0)
    for (const auto& [id, slot] : roster_.slots)
      if (slot.restart_at) {
        consider(*slot.restart_at);
        consider(*slot.restart_at + kRepairLimit);
      }
  if (asked_at_) consider(*asked_at_ + answer_limit());
  if (half_entered_at_) consider(*half_entered_at_ + entry_limit());
  if (all_done_at_) consider(*all_done_at_ + kLastSamples);
  if (gather_until_) consider(*gather_until_);
  if (shut_down_by_) consider(*shut_down_by_);
  if (stop_by_) consider(*stop_by_);
  return next;
}

uint64_t ControllerCore::State::digest() const {
  Digest digest;
  digest.add(static_cast<uint8_t>(phase)).add(committed_.value()).add(step_.value());
  for (const auto& [id, slot] : roster_.slots)
    digest.add(slot.incarnation.value())
        .add(static_cast<uint8_t>(SlotState{slot.state}))
        .add(slot.restarts);
  for (const auto& [id, host] : roster_.hosts)
    digest.add(host.is_connected).add(static_cast<uint8_t>(host.state)).add(host.present.size());
  if (membership_) membership_->add_to(digest);
  return digest.value();
}

void ControllerCore::State::send(HostId host, HostCommand command) {
  effects.sends.push_back({host, std::move(command)});
}

std::string ControllerCore::State::host_name(HostId host) const {
  const auto found = roster_.hosts.find(host);
  return found == roster_.hosts.end() ? str("host ", host) : found->second.name;
}

std::string ControllerCore::State::describe(const Slot& slot) const {
  return str("rank ", slot.id, " on ", host_name(slot.host));
}

}  // namespace paceline::control
