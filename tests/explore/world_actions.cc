// Which actions a state has.
#include <cstring>

#include "base/check.h"
#include "world.h"

namespace paceline::explore {

using control::Loss;
using control::Membership;

namespace {

bool has(uint8_t bits, size_t i) { return (bits >> i & 1) != 0; }

}  // namespace

std::vector<Action> World::actions(const State& s) {
  std::vector<Action> out;
  for (size_t r = 0; r < kRanks; ++r) {
    if (is_up(s, r)) add_rank_actions(s, r, out);
    add_rank_faults(s, r, out);
    if (s.controller != 0) add_controller_actions(s, r, out);
  }
  add_job_actions(s, out);
  if (config_.is_full) return out;
  if (!out.empty() && out.back().kind == ActionKind::CrashAndRestart && !changes(s, out.back()))
    out.pop_back();
  return out;
}

// A fault that leaves all as it was has only used up its budget: what can follow can follow without
// it.
bool World::changes(const State& s, const Action& fault) {
  State after = apply(s, fault);
  after.crashes = s.crashes;
  return std::memcmp(&after, &s, sizeof s) != 0;
}

// What rank r does by itself: compute, take messages, heal.
void World::add_rank_actions(const State& s, size_t r, std::vector<Action>& out) {
  const auto self = static_cast<uint8_t>(r);
  const size_t first = out.size();
  if (rank(s, r).is_computing()) {
    out.push_back({ActionKind::Accumulate, self, 0});
  } else if (rank_step(s.rank[r], RankEvent::Begin, 0).next != s.rank[r]) {
    out.push_back({ActionKind::Begin, self, 0});
  }
  for (size_t from = 0; from < kRanks; ++from) {
    if (s.data[from][r] == 0) continue;
    const rank::Relation relation = rank(s, r).relation(messages_.at(head(s.data[from][r])));
    const auto peer = static_cast<uint8_t>(from);
    if (relation == rank::Relation::Current) out.push_back({ActionKind::TakeData, self, peer});
    if (relation == rank::Relation::Newer && config_.refuses_newer)
      out.push_back({ActionKind::RefuseNewer, self, peer});
  }
  const bool can_wait =
      !config_.is_full && out.size() > first &&
      !may_vote_next(s, r, {out.begin() + static_cast<ptrdiff_t>(first), out.end()});
  if (rank(s, r).is_joining()) add_joiner_actions(s, r, out);
  if (s.to_rank[r] == 0 || is_cut(s, r)) return;
  const bool is_announcement = std::holds_alternative<Announce>(messages_.at(head(s.to_rank[r])));
  if (is_announcement && can_wait && queues_.at(s.to_rank[r]).rest == 0) return;
  out.push_back({ActionKind::TakeControl, self, 0});
  if (s.duplicates < config_.duplicates && s.copy == 0)
    out.push_back({ActionKind::TakeControlLeavingCopy, self, 0});
}

// Would one of these actions make rank r cast a vote?
bool World::may_vote_next(const State& s, size_t r, const std::vector<Action>& actions) {
  for (const Action& action : actions) {
    uint32_t next = s.rank[r];
    if (action.kind == ActionKind::Accumulate) {
      next = rank_step(next, RankEvent::Accumulate, 0).next;
    } else if (action.kind == ActionKind::TakeData) {
      next = rank_step(next, RankEvent::Data, head(s.data[action.peer][r]), action.peer).next;
    }
    const rank::RankCore& before = rank(s, r).core();
    const rank::RankCore& after = ranks_.at(next).core();
    if (after.has_voted() != before.has_voted() || !(after.position() == before.position()))
      return true;
  }
  return false;
}

// A joiner applies the sums of committed turns that a live donor has, and learns of a switch there.
void World::add_joiner_actions(const State& s, size_t r, std::vector<Action>& out) {
  for (size_t d = 0; d < kRanks; ++d) {
    if (d == r || !is_up(s, d) || rank(s, d).is_joining()) continue;
    const auto self = static_cast<uint8_t>(r);
    const auto donor = static_cast<uint8_t>(d);
    if (rank_step(s.rank[r], RankEvent::Apply, s.rank[d]).next != s.rank[r])
      out.push_back({ActionKind::ApplySums, self, donor});
    if (rank_step(s.rank[r], RankEvent::Learn, s.rank[d]).next != s.rank[r])
      out.push_back({ActionKind::LearnEpoch, self, donor});
  }
}

void World::add_rank_faults(const State& s, size_t r, std::vector<Action>& out) const {
  const auto self = static_cast<uint8_t>(r);
  // A loss equals a delay until it is refused, and the Prepare that follows from the death makes
  // every receiver refuse it: unless it is cut off or has lost the connection, too.
  const bool is_told = config_.cuts == 0 && config_.links == 0;
  const auto can_part = [&](bool is_all) { return config_.is_full || (is_all && !is_told); };
  if (is_up(s, r) && s.kills < config_.kills) {
    uint8_t peers = 0;
    for (size_t to = 0; to < kRanks; ++to)
      if (s.data[r][to] != 0) peers |= static_cast<uint8_t>(1u << to);
    for (uint8_t pick = 0; pick < 1u << kRanks; ++pick) {
      if ((pick & ~peers) == 0 && (pick == 0 || can_part(pick == peers)))
        out.push_back({ActionKind::Die, self, pick});
    }
  }
  if (is_up(s, r) && !rank(s, r).is_joining() && s.freezes < config_.freezes)
    out.push_back({ActionKind::Freeze, self, 0});
  // Not in full: frozen for a while is not scheduled for a while, and believed lost (Suspect).
  if (s.status[r] == Status::Frozen && config_.is_full) out.push_back({ActionKind::Thaw, self, 0});
  if (is_cut(s, r)) out.push_back({ActionKind::Heal, self, 0});
}

// Can the controller still learn that rank r, dead, frozen or cut off, is lost?
bool World::is_lost_news(const State& s, size_t r) const {
  if (is_phase(s, Membership::Phase::Stopped)) return false;
  const bool is_dead = s.status[r] == Status::Dead;
  if (!is_dead && s.status[r] != Status::Frozen && !is_cut(s, r)) return false;
  const auto known = controller(s).known_loss(r);
  const bool is_news = !known || (is_dead && known == Loss::Silent);
  return is_news && controller(s).membership().may_be_in_force(rank_id(r));
}

// What the controller does about rank r. Detection is fair: what is dead, frozen or cut off is seen
// sooner or later. REQUIRES: the controller is up.
void World::add_controller_actions(const State& s, size_t r, std::vector<Action>& out) const {
  const auto self = static_cast<uint8_t>(r);
  const Membership& membership = controller(s).membership();
  const Membership::Phase phase = membership.phase();
  const auto known = controller(s).known_loss(r);
  const bool in_force = membership.may_be_in_force(rank_id(r));
  if (s.to_controller[r] != 0 && !is_cut(s, r)) {
    out.push_back({ActionKind::TakeReport, self, 0});
    if (s.duplicates < config_.duplicates && s.copy == 0)
      out.push_back({ActionKind::TakeReportLeavingCopy, self, 0});
  }
  if (is_lost_news(s, r)) out.push_back({ActionKind::DeclareLost, self, 0});
  if (!is_up(s, r) || is_cut(s, r)) return;
  const bool can_suspect = s.freezes < config_.freezes && !rank(s, r).is_joining() && in_force;
  if (!config_.is_full && can_suspect && !known && phase != Membership::Phase::Stopped)
    out.push_back({ActionKind::Suspect, self, 0});
  if (known == Loss::Silent && in_force) out.push_back({ActionKind::SeeAgain, self, 0});
  const bool is_idle = phase == Membership::Phase::Idle;
  if (is_idle && !in_force && !rank(s, r).is_joining())
    out.push_back({ActionKind::EndStray, self, 0});  // rule 20
  const bool misses_prepare = phase == Membership::Phase::Preparing && s.to_rank[r] == 0 &&
                              s.to_controller[r] == 0 && controller(s).is_unanswered(r);
  const rank::RankCore& core = rank(s, r).core();
  const bool misses_decision = is_idle && s.to_rank[r] == 0 && core.is_promised() &&
                               membership.base().has(rank_id(r)) &&
                               core.promised() <= membership.base().number;
  if (misses_prepare || misses_decision) out.push_back({ActionKind::Repeat, self, 0});
}

// Late copies, partitions, lost connections, planned epochs, crash and restart of the controller.
void World::add_job_actions(const State& s, std::vector<Action>& out) const {
  if (s.copy != 0) out.push_back({ActionKind::CopyArrives});
  for (uint8_t group = 1; s.cuts < config_.cuts && group < 1u << kRanks; ++group) {
    bool can_be_cut = (group & s.cut) == 0;
    for (size_t r = 0; r < kRanks; ++r)
      if (has(group, r) && (!is_up(s, r) || rank(s, r).is_joining())) can_be_cut = false;
    if (can_be_cut) out.push_back({ActionKind::Cut, 0, group});
  }
  for (uint8_t a = 0; s.links < config_.links && a < kRanks; ++a)
    for (uint8_t b = static_cast<uint8_t>(a + 1); b < kRanks; ++b)
      if (is_up(s, a) && is_up(s, b)) out.push_back({ActionKind::LoseConnection, a, b});
  if (s.controller == 0) {
    out.push_back({ActionKind::Restart});
    return;
  }
  const Membership& membership = controller(s).membership();
  const bool is_idle = membership.phase() == Membership::Phase::Idle;
  if (s.broken != 0 && is_idle) out.push_back({ActionKind::HearOfConnection});
  const bool is_alone = config_.plan == Plan::Leave && membership.base().members.size() == 1 &&
                        membership.base().has(rank_id(2));
  if (config_.plan != Plan::None && s.plans == 0 && membership.can_announce() && !is_alone)
    out.push_back({ActionKind::Announce});
  if (s.crashes < config_.crashes && membership.phase() != Membership::Phase::Stopped)
    out.push_back({config_.is_full ? ActionKind::Crash : ActionKind::CrashAndRestart});
}

}  // namespace paceline::explore
