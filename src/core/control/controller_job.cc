// The life of a job: gather hosts, place slots, start, stop, end.
#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "core/control/controller_state.h"
#include "core/control/exit_code.h"

namespace paceline::control {
namespace {

// How long processes may take to end by themselves once the verdict is known.
constexpr Duration kEndingGrace = Duration::seconds(5);
constexpr int32_t kExitNoController = 69;

}  // namespace

void ControllerCore::State::prepare_job(const JobSpec& spec) {
  spec_ = spec;
  if (spec_.micro_batches == 0) spec_.micro_batches = spec_.ranks();
  if (!spec_.is_aware) return;
  membership_.emplace(spec_.micro_batches, divider_);
  turns_.emplace(spec_.micro_batches);
  ledger_.emplace(spec_.ranks());
}

void ControllerCore::State::on(const Submit& event) {
  if (phase != JobPhase::None) return;  // a repeated request
  prepare_job(event.spec);
  journal(JobSubmitted{spec_});
  phase = JobPhase::Gathering;
  gather_until_ = now_ + spec_.join_timeout;
}

void ControllerCore::State::place_if_gathered() {
  if (phase != JobPhase::Gathering) return;
  std::vector<HostId> ready;
  for (const auto& [id, host] : roster_.hosts)
    if (host.is_connected) ready.push_back(id);
  // By name, so that a rank is found where a reader expects it: host2 before host10.
  std::sort(ready.begin(), ready.end(), [&](HostId a, HostId b) {
    const std::string& name_a = roster_.hosts.at(a).name;
    const std::string& name_b = roster_.hosts.at(b).name;
    return std::tuple(name_a.size(), name_a, a) < std::tuple(name_b.size(), name_b, b);
  });
  const size_t wanted = spec_.hosts_max + spec_.spare_hosts;
  if (ready.size() >= wanted) {
    ready.resize(wanted);
    place(ready);
    return;
  }
  if (now_ < *gather_until_) return;
  std::string seen;
  for (const HostId id : ready) seen += str(seen.empty() ? "" : ", ", host_name(id));
  if (ready.size() < spec_.hosts_min) {
    end_job(Verdict::Failed, kExitNoController,
            str(ready.size(), " of ", spec_.hosts_min, " hosts joined within ", spec_.join_timeout,
                seen.empty() ? "" : " (", seen, seen.empty() ? "" : ")",
                ": start an agent on the missing ones, or lower --nnodes"));
    return;
  }
  notice(str("starting with ", ready.size(), " of ", wanted, " hosts: ", seen));
  place(ready);
}

void ControllerCore::State::place(const std::vector<HostId>& chosen) {
  const size_t working = std::min<size_t>(chosen.size(), spec_.hosts_max);
  world_size_ = static_cast<uint32_t>(working) * spec_.ranks_per_host;
  gather_until_.reset();
  phase = JobPhase::Starting;
  uint32_t next_slot = 0;
  for (size_t i = 0; i < chosen.size(); ++i) {
    roster_.hosts.at(chosen[i]).is_spare = i >= working;
    for (uint32_t local = 0; local < spec_.ranks_per_host; ++local) {
      const SlotId id(next_slot++);
      Slot& slot = roster_.add(id);
      slot.host = chosen[i];
      const bool is_idle = i >= working && !(spec_.is_aware && spec_.has_hot_spares);
      is_idle ? lay_idle(slot) : assign_process(slot, false);
    }
  }
  tell_started();
  for (const HostId host : chosen) desire(host);
}

void ControllerCore::State::tell_started() {
  watch(JobStarted{.hosts = world_size_ / spec_.ranks_per_host,
                   .ranks = world_size_,
                   .spares = static_cast<uint32_t>(roster_.slots.size()) - world_size_,
                   .micro_batches = spec_.micro_batches,
                   .reduce = spec_.reduce,
                   .has_hot_spares = spec_.has_hot_spares});
}

// Only the library says that a rank is up: the program links it after all, behind a wrapper
// perhaps, and its ranks wait for their first epoch.
void ControllerCore::State::take_as_aware() {
  spec_.is_aware = true;
  prepare_job(spec_);
  journal(JobSubmitted{spec_});
  notice("the program uses libpaceline: it runs as with --runtime paceline");
  for (auto& [id, slot] : roster_.slots) {
    if (slot.state == SlotState::Done) roster_.set(slot, SlotState::Empty);
    if (spec_.has_hot_spares) slot.is_cold = false;
    if (slot.state == SlotState::Empty && !slot.is_cold) slot.restart_at = now_;
  }
}

void ControllerCore::State::start_if_all_up() {
  if (phase != JobPhase::Starting) return;
  if (!spec_.is_aware && roster_.count(SlotState::Up) > 0) take_as_aware();
  if (!spec_.is_aware) return;
  std::vector<Member> members;
  for (const auto& [id, slot] : roster_.slots) {
    if (slot.is_cold) continue;
    if (slot.state != SlotState::Up && is_awaited(slot)) return;
    if (slot.state == SlotState::Up) members.push_back(roster_.member_of(slot));
  }
  if (members.empty()) return;
  gather_until_.reset();
  phase = JobPhase::Running;
  set_divider();
  membership_->start(members);
  carry_out_membership();
}

// --- Stop and end ---

void ControllerCore::State::on(const StopRequested& event) {
  if (phase == JobPhase::Finished || phase == JobPhase::Ending) return;
  const bool is_running =
      phase == (spec_.is_aware ? JobPhase::Running : JobPhase::Starting) && !event.is_immediate;
  if (!is_running) {
    end_grace_ = {};
    end_job(Verdict::Stopped, kExitInterrupted, "interrupted");
    return;
  }
  if (std::exchange(is_stop_wanted_, true)) return;
  journal(StopWanted{});
  if (spec_.is_aware) {
    notice("stopping after the running step");
  } else {
    notice(str("stopping: ranks get SIGTERM, and SIGKILL after ", spec_.stop_grace));
    stop_unaware();
  }
}

void ControllerCore::State::finish_if_all_done() {
  if (phase != JobPhase::Running || !membership_ || membership_->phase() != Membership::Phase::Idle)
    return;
  const Epoch& epoch = membership_->base();
  if (epoch.number == EpochNumber(0)) return;
  for (const Member& member : epoch.members) {
    const Slot* slot = roster_.find(member.rank);
    if (slot == nullptr || slot->state != SlotState::Done) return;
  }
  // The last samples come with the agents' next windows.
  if (!all_done_at_) all_done_at_ = now_;
  const bool has_everything = committed_ >= done_committed_ && turns_->is_through(done_committed_);
  if (!has_everything && now_ < *all_done_at_ + kLastSamples) return;
  const bool was_stopped =
      epoch.is_last || (membership_->planned() && membership_->planned()->is_last);
  for (const Member& member : epoch.members) send(member.host, Release{member.rank});
  if (poison_) {
    end_poisoned();
  } else if (was_stopped) {
    end_job(Verdict::Stopped, kExitRequeue, "stopped in order");
  } else {
    end_job(Verdict::Completed, 0, "completed");
  }
}

// The verdict is final from here on. Who waits in finalize ends by itself; the others are ended.
void ControllerCore::State::end_job(Verdict verdict, int32_t exit_code, std::string reason) {
  CHECK(phase != JobPhase::Ending && phase != JobPhase::Finished);
  phase = JobPhase::Ending;
  verdict_ = verdict;
  exit_code_ = exit_code;
  const uint64_t state_digest = agreed_digest();
  journal(JobFinished{verdict, exit_code, state_digest, step_});
  if (turns_)
    for (const TurnCommitted& turn : turns_->take_rest()) watch(turn);
  if (ledger_) watch(ledger_->total());
  watch(JobEnded{.verdict = verdict,
                 .exit_code = exit_code,
                 .reason = std::move(reason),
                 .state_digest = state_digest,
                 .step = step_});
  for (auto& [id, slot] : roster_.slots)
    if (slot.is_alive() && slot.state != SlotState::Done) roster_.set(slot, SlotState::Ending);
  for (const auto& [id, host] : roster_.hosts) desire(id);
  shut_down_by_ = now_ + (verdict == Verdict::Failed ? end_grace_ : kEndingGrace);
}

void ControllerCore::State::shut_down_if_clean() {
  if (phase != JobPhase::Ending) return;
  const bool is_clean = std::all_of(
      roster_.hosts.begin(), roster_.hosts.end(),
      [](const auto& entry) { return entry.second.present.empty() || !entry.second.is_connected; });
  if (!shut_down_by_) shut_down_by_ = now_ + kEndingGrace;
  if (!is_clean && now_ < *shut_down_by_) return;
  for (const auto& [id, host] : roster_.hosts) send(id, Shutdown{});
  phase = JobPhase::Finished;
}

uint64_t ControllerCore::State::agreed_digest() const {
  std::map<uint64_t, int> votes;
  for (const auto& [id, slot] : roster_.slots)
    if (slot.state == SlotState::Done) ++votes[slot.state_digest];
  uint64_t digest = 0;
  int most = 0;
  for (const auto& [value, count] : votes)
    if (count > most) most = count, digest = value;
  return digest;
}

}  // namespace paceline::control
