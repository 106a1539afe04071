// Paths between hosts: connections that two ranks lose though both live.
//
// Nobody is to blame for the first one: the same members form a new epoch, with new connections
// (rule 22). If the path is lost again before the next commit, it is dead, and one of its hosts is
// left out (PathLedger says which, and for how long): otherwise new epochs would follow each other
// without end.
#include <algorithm>

#include "base/check.h"
#include "core/control/controller_state.h"

namespace paceline::control {
namespace {

// A connection that ends may be explained by the death of one side, which is known within this.
constexpr Duration kExplanationTime = Duration::milliseconds(60);
// A peer that is silent may be stopped, or its host lost: those who judge that come first.
constexpr Duration kSilentPathTime = Duration::seconds(2);
// The library's own thread beats every 50 ms, and its agent looks as often.
constexpr Duration kBeatLimit = Duration::milliseconds(300);

}  // namespace

void ControllerCore::State::note_lost_connection(const PeerTrouble& trouble) {
  const auto is_same = [&](const LostConnection& lost) {
    return lost.reporter == trouble.reporter && lost.peer == trouble.peer;
  };
  if (trouble.what == PeerTrouble::What::HeardAgain) {
    std::erase_if(lost_connections_,
                  [&](const LostConnection& lost) { return is_same(lost) && lost.is_silent; });
    return;
  }
  const bool is_silent = trouble.what == PeerTrouble::What::Silent;
  lost_connections_.push_back({.reporter = trouble.reporter,
                               .peer = trouble.peer,
                               .epoch = membership_->base().number,
                               .due = now_ + (is_silent ? kSilentPathTime : kExplanationTime),
                               .is_silent = is_silent});
}

// Its host is heard, and if it is silent to a peer it must be seen to run.
bool ControllerCore::State::lives(RankId rank, const LostConnection& lost) const {
  const auto found = roster_.slots.find(rank.slot);
  if (found == roster_.slots.end() || found->second.rank() != rank || !found->second.is_alive())
    return false;
  const Slot& slot = found->second;
  return is_heard(roster_.hosts.at(slot.host)) &&
         (!lost.is_silent || now_ - slot.beat_at < kBeatLimit);
}

void ControllerCore::State::judge_lost_connections() {
  if (phase != JobPhase::Running || lost_connections_.empty() || !membership_) return;
  const EpochNumber epoch = membership_->base().number;
  bool is_unexplained = false;
  std::erase_if(lost_connections_, [&](const LostConnection& lost) {
    if (lost.epoch < epoch || membership_->phase() != Membership::Phase::Idle) return true;
    if (now_ < lost.due) return false;
    if (!lives(lost.reporter, lost) || !lives(lost.peer, lost)) return false;
    paths_.lost(PathLedger::between(roster_.slots.at(lost.reporter.slot).host,
                                    roster_.slots.at(lost.peer.slot).host),
                epoch);
    is_unexplained = true;
    return true;
  });
  if (!is_unexplained) return;
  const bool is_left_out = leave_out_dead_paths();
  if (is_left_out) return;
  notice("a connection between live ranks was lost: forming a new epoch with the same members");
  membership_->reform({});
}

bool ControllerCore::State::leave_out_dead_paths() {
  bool is_left_out = false;
  while (const std::optional<PathLedger::Path> path = paths_.dead_path()) {
    std::map<HostId, uint32_t> members;
    for (const Member& member : membership_->base().members) {
      const Slot* slot = roster_.find(member.rank);
      if (slot != nullptr && slot->is_alive()) ++members[member.host];
    }
    const HostId chosen = paths_.choose(*path, members);
    members.erase(chosen);
    if (members.empty()) break;  // nobody would be left
    leave_out(chosen, *path);
    is_left_out = true;
  }
  return is_left_out;
}

// Its processes are ended and may come back once PathLedger lets them: as joiners, like any.
void ControllerCore::State::leave_out(HostId host, PathLedger::Path path) {
  Incident& incident = open_incident(IncidentKind::DeadPath, std::nullopt);
  incident.host = host;
  incident.evidence =
      str("connections between ", host_name(path.first), " and ", host_name(path.second),
          " were lost twice without a commit in between, though both are heard");
  paths_.leave_out(host, now_);
  journal(HostKeptOut{.host = host, .pause = paths_.pause_of(host)});
  for (Slot* slot : roster_.on_host(host)) {
    if (!slot->is_alive()) continue;
    slot->incident = incident.id;
    rank_is_dying(*slot);
  }
  publish(incident);
  desire(host);
}

// A commit by this rank: those who commit together reach each other.
void ControllerCore::State::note_reached(RankId rank, EpochNumber epoch) {
  if (!paths_.is_in_use()) return;
  paths_.committed_in(epoch);
  const Slot* slot = roster_.find(rank);
  if (slot == nullptr || paths_.is_kept_out(slot->host, now_)) return;
  if (paths_.came_back(slot->host)) journal(HostKeptOut{.host = slot->host, .pause = {}});
}

// What an earlier life of the controller had left out stays out, whether its processes had been
// ended by then or not.
void ControllerCore::State::resume_kept_out() {
  paths_.resume(now_);
  if (!membership_) return;
  for (auto& [id, slot] : roster_.slots) {
    if (!slot.is_alive() || !paths_.is_kept_out(slot.host, now_)) continue;
    roster_.set(slot, SlotState::Ending);
    membership_->lost(slot.rank(), Loss::Ended);
  }
}

}  // namespace paceline::control
