// What follows from an action.
#include "base/check.h"
#include "base/str.h"
#include "world.h"

namespace paceline::explore {

using control::Membership;

namespace {

uint8_t bit(size_t i) { return static_cast<uint8_t>(1u << i); }

// The bit of a pair of ranks in State::broken.
uint8_t pair_bit(size_t a, size_t b) {
  constexpr uint8_t kIndex[kRanks][kRanks] = {
      {0, 0, 1, 2}, {0, 0, 3, 4}, {1, 3, 0, 5}, {2, 4, 5, 0}};
  return bit(kIndex[a][b]);
}

}  // namespace

State World::apply(const State& state, const Action& action) {
  State s = state;
  switch (action.kind) {
    case ActionKind::Begin:
    case ActionKind::Accumulate:
    case ActionKind::TakeData:
    case ActionKind::RefuseNewer:
    case ActionKind::TakeControl:
    case ActionKind::ApplySums:
    case ActionKind::LearnEpoch:
      apply_to_rank(s, action);
      break;
    case ActionKind::TakeReport:
    case ActionKind::DeclareLost:
    case ActionKind::SeeAgain:
    case ActionKind::EndStray:
    case ActionKind::Repeat:
    case ActionKind::HearOfConnection:
    case ActionKind::Announce:
    case ActionKind::Restart:
      apply_to_controller(s, action);
      break;
    default:
      apply_fault(s, action);
  }
  normalise(s);
  return s;
}

void World::apply_to_rank(State& s, const Action& action) {
  const size_t r = action.rank;
  const uint32_t self = s.rank[r];
  switch (action.kind) {
    case ActionKind::Begin:
      return follow(s, r, rank_step(self, RankEvent::Begin, 0));
    case ActionKind::Accumulate:
      return follow(s, r, rank_step(self, RankEvent::Accumulate, 0));
    case ActionKind::RefuseNewer:
      take_head(s.data[action.peer][r]);
      return;
    case ActionKind::TakeData: {
      uint32_t message = take_head(s.data[action.peer][r]);
      if (config_.rereads_vote && is_up(s, action.peer)) {
        if (const auto* vote = std::get_if<Vote>(&messages_.at(message)); vote && vote->hop == 0) {
          Vote reread = *vote;
          reread.carried_low = reread.carried_high = rank(s, action.peer).announced();
          message = intern(reread);
        }
      }
      return follow(s, r, rank_step(self, RankEvent::Data, message, action.peer));
    }
    case ActionKind::TakeControl:
      return follow(s, r, rank_step(self, RankEvent::Control, take_head(s.to_rank[r])));
    case ActionKind::ApplySums:
      return follow(s, r, rank_step(self, RankEvent::Apply, s.rank[action.peer]));
    default:
      CHECK(action.kind == ActionKind::LearnEpoch);
      return follow(s, r, rank_step(self, RankEvent::Learn, s.rank[action.peer]));
  }
}

void World::apply_to_controller(State& s, const Action& action) {
  const size_t r = action.rank;
  switch (action.kind) {
    case ActionKind::TakeReport:
      return take_upward(s, r, take_head(s.to_controller[r]));
    case ActionKind::DeclareLost:
      return declare_lost(s, r);
    case ActionKind::SeeAgain:
      return follow(s, controller_step(s.controller, ControllerEvent::SeeAgain, r));
    case ActionKind::EndStray:
      return end(s, r, Status::Left);
    case ActionKind::Repeat:
      return follow(s, controller_step(s.controller, ControllerEvent::Repeat, r));
    case ActionKind::HearOfConnection:
      return follow(s, controller_step(s.controller, ControllerEvent::Reform, 0));
    case ActionKind::Announce:
      ++s.plans;
      return follow(s, controller_step(s.controller, ControllerEvent::Announce, 0));
    default:
      CHECK(action.kind == ActionKind::Restart);
      s.to_rank = {};
      follow(s, controller_step(s.journal, ControllerEvent::Restart, 0));
      for (size_t rank = 0; rank < kRanks; ++rank) tell_where(s, rank);
  }
}

void World::apply_fault(State& s, const Action& action) {
  const size_t r = action.rank;
  switch (action.kind) {
    case ActionKind::TakeControlLeavingCopy:
    case ActionKind::TakeReportLeavingCopy: {
      const bool is_upward = action.kind == ActionKind::TakeReportLeavingCopy;
      ++s.duplicates;
      s.copy = head(is_upward ? s.to_controller[r] : s.to_rank[r]);
      s.copy_rank = action.rank;
      s.is_copy_upward = is_upward;
      if (is_upward) return take_upward(s, r, take_head(s.to_controller[r]));
      return apply_to_rank(s, {ActionKind::TakeControl, action.rank, 0});
    }
    case ActionKind::CopyArrives: {
      const uint32_t message = std::exchange(s.copy, 0);
      const size_t to = std::exchange(s.copy_rank, uint8_t{0});
      const bool is_upward = std::exchange(s.is_copy_upward, uint8_t{0}) != 0;
      if (is_upward && s.controller != 0) return take_upward(s, to, message);
      if (!is_upward && is_up(s, to))
        return follow(s, to, rank_step(s.rank[to], RankEvent::Control, message));
      return;
    }
    case ActionKind::Die:
      ++s.kills;
      for (size_t to = 0; to < kRanks; ++to)
        if ((action.peer & bit(to)) != 0) s.data[r][to] = 0;
      end(s, r, Status::Dead);
      if (!config_.is_full) declare_lost(s, r);
      return;
    case ActionKind::Freeze:
      ++s.freezes;
      if (config_.is_full) {
        s.status[r] = Status::Frozen;
        return;
      }
      end(s, r, Status::Frozen);  // for good
      return declare_lost(s, r);
    case ActionKind::Thaw:
      s.status[r] = Status::Up;
      return;
    case ActionKind::Suspect:
      ++s.freezes;
      return follow(s, controller_step(s.controller, ControllerEvent::LoseSilent, r));
    case ActionKind::Cut:
      ++s.cuts;
      s.cut |= action.peer;
      return;
    case ActionKind::Heal:  // a new stream: what was under way on the old one is lost
      s.cut = static_cast<uint8_t>(s.cut & ~bit(r));
      s.to_rank[r] = s.to_controller[r] = 0;
      return tell_where(s, r);
    case ActionKind::LoseConnection:
      ++s.links;
      s.broken |= pair_bit(r, action.peer);
      s.data[r][action.peer] = s.data[action.peer][r] = 0;
      return;
    default:
      ++s.crashes;
      s.controller = 0;
      s.to_controller = {};
      if (action.kind == ActionKind::CrashAndRestart)
        apply_to_controller(s, {ActionKind::Restart, 0, 0});
  }
}

// --- Consequences ---

void World::follow(State& s, size_t r, const RankOutcome& outcome) {
  const RankSteps& steps = outcome.steps;
  if (!steps.violation.empty()) throw Violation{steps.violation};
  s.rank[r] = outcome.next;
  for (const RankSteps::Commit& commit : steps.commits) {
    uint8_t& sums_epoch = s.sums_epoch[commit.turn.value()];
    const auto now = static_cast<uint8_t>(commit.sums_epoch.value());
    if (sums_epoch != 0 && sums_epoch != now)
      throw Violation{"S1/S5 one turn is committed with sums of two epochs"};
    sums_epoch = now;
  }
  for (size_t i = 0; i < outcome.to_ranks.size(); ++i) {
    const size_t to = steps.to_ranks[i].first;
    if (s.rank[to] == 0 || (s.broken & pair_bit(r, to)) != 0) continue;
    s.data[r][to] = pushed(s.data[r][to], outcome.to_ranks[i]);
  }
  if (steps.has_left) end(s, r, Status::Left);
  for (const uint32_t message : outcome.to_controller) tell_controller(s, r, message);
}

void World::follow(State& s, const ControllerOutcome& outcome) {
  s.journal = journal_after(s.journal, outcome);
  s.controller = outcome.next;
  for (size_t i = 0; i < outcome.to_ranks.size(); ++i) {
    const size_t to = outcome.steps.to_ranks[i].first;
    if (s.rank[to] != 0) s.to_rank[to] = pushed(s.to_rank[to], outcome.to_ranks[i]);
  }
  if (outcome.steps.has_decided) s.broken = 0;
}

void World::take_upward(State& s, size_t r, uint32_t message) {
  follow(s, controller_step(s.controller, ControllerEvent::Take, r, message));
}

// What the controller would ignore now and at any later time is not sent at all.
void World::tell_controller(State& s, size_t r, uint32_t message) {
  if (s.controller == 0 || is_cut(s, r)) return;
  const Membership& membership = controller(s).membership();
  const Message& said = messages_.at(message);
  if (const auto* entered = std::get_if<Entered>(&said)) {
    if (!membership.planned() || membership.planned()->number != entered->epoch) return;
  } else if (std::holds_alternative<HasLeft>(said)) {
    if (!membership.may_be_in_force(rank_id(r))) return;
  }
  s.to_controller[r] = pushed(s.to_controller[r], message);
}

// On a new stream a rank's agent says where the rank is.
void World::tell_where(State& s, size_t r) {
  if (s.status[r] == Status::Left) {
    tell_controller(s, r, intern(HasLeft{}));
  } else if (s.rank[r] != 0) {
    tell_controller(s, r, intern(Entered{rank(s, r).core().epoch().number}));
  }
}

void World::declare_lost(State& s, size_t r) {
  if (!is_lost_news(s, r)) return;
  const auto event =
      s.status[r] == Status::Dead ? ControllerEvent::LoseEnded : ControllerEvent::LoseSilent;
  follow(s, controller_step(s.controller, event, r));
}

void World::end(State& s, size_t r, Status status) {
  s.status[r] = status;
  s.rank[r] = 0;
  s.to_rank[r] = 0;
  if (status == Status::Dead) s.to_controller[r] = 0;
  for (size_t from = 0; from < kRanks; ++from) s.data[from][r] = 0;
}

// --- Reduction ---

// Removes what its receiver can only refuse. Unless the search is full: takes at once
//  - every accumulation that only its own rank can notice;
//  - every message from a rank by which its receiver casts no vote and commits nothing. What it
//    would answer to the controller is the same before and after, and what it now tells other ranks
//    (a hop of the votes) can be taken as late as one likes, or never: a Prepare makes its receiver
//    refuse it, as if it had never been sent. So all that can follow if the message is taken later,
//    or is lost, can follow now. (An accumulation that sends something is no such step: the rank
//    may take other messages between two of them, and it is to be seen that it votes on none.)
//  - every control message that its rank ignores, since it would ignore it later as well;
//  - every report and every "is in the epoch" that completes nothing at the controller: a rank that
//    has reported does not move, so its report, lost and repeated, is the same.
// World::actions() reduces further: what a rank takes while the controller is down it could have
// taken just before, so a crash and its restart are one action; a rank that is frozen and thaws
// is one that is not scheduled for a while, so only the belief that it is lost is an action; and
// one that dies or freezes for good is one that is not scheduled until the controller learns it,
// so both are one action.
// An announcement is taken where it can matter: before a vote, or before what is behind it.
void World::normalise(State& s) {
  bool has_changed = true;
  while (std::exchange(has_changed, false)) {
    for (size_t r = 0; r < kRanks; ++r) {
      while (!config_.is_full && take_invisible_report(s, r)) {
      }
      if (s.rank[r] == 0) continue;
      refuse_old(s, r);
      if (config_.is_full || !is_up(s, r)) continue;
      while (take_invisible(s, r)) {
        refuse_old(s, r);
        has_changed = true;
      }
    }
  }
}

bool World::take_invisible_report(State& s, size_t r) {
  if (s.controller == 0 || s.to_controller[r] == 0 || is_cut(s, r)) return false;
  if (s.duplicates < config_.duplicates) return false;  // it may still be copied
  const uint32_t message = head(s.to_controller[r]);
  if (std::holds_alternative<HasLeft>(messages_.at(message))) return false;
  const ControllerOutcome& outcome =
      controller_step(s.controller, ControllerEvent::Take, r, message);
  if (!outcome.steps.records.empty() || !outcome.steps.to_ranks.empty()) return false;
  const Membership::Phase now = controllers_.at(outcome.next).membership().phase();
  if (!is_phase(s, now)) return false;  // it has completed the reports, and the controller waits
  take_head(s.to_controller[r]);
  s.controller = outcome.next;
  return true;
}

void World::refuse_old(State& s, size_t r) {
  for (size_t from = 0; from < kRanks; ++from) {
    uint32_t& queue = s.data[from][r];
    while (queue != 0 && rank(s, r).relation(messages_.at(head(queue))) == rank::Relation::Old)
      take_head(queue);
  }
}

bool World::take_invisible(State& s, size_t r) {
  if (s.to_rank[r] != 0 && !is_cut(s, r)) {  // ignored now, and so at any later time
    const RankOutcome& outcome = rank_step(s.rank[r], RankEvent::Control, head(s.to_rank[r]));
    if (outcome.next == s.rank[r] && !outcome.steps.is_visible()) {
      take_head(s.to_rank[r]);
      return true;
    }
  }
  if (rank(s, r).is_computing() && !rank(s, r).core().is_promised()) {
    const RankOutcome& outcome = rank_step(s.rank[r], RankEvent::Accumulate, 0);
    if (!outcome.steps.is_visible()) {
      s.rank[r] = outcome.next;
      return true;
    }
  }
  for (size_t from = 0; from < kRanks; ++from) {
    uint32_t& queue = s.data[from][r];
    if (queue == 0) continue;
    const uint32_t message = head(queue);
    if (rank(s, r).relation(messages_.at(message)) != rank::Relation::Current) continue;
    const RankOutcome& outcome = rank_step(s.rank[r], RankEvent::Data, message, from);
    if (is_report_changed(s.rank[r], outcome)) continue;
    take_head(queue);
    follow(s, r, outcome);
    return true;
  }
  return false;
}

// Would the rank now answer a Prepare in another way, or has it told the controller something?
bool World::is_report_changed(uint32_t rank, const RankOutcome& outcome) const {
  const RankSteps& steps = outcome.steps;
  return ranks_.at(rank).core().has_voted() != ranks_.at(outcome.next).core().has_voted() ||
         !steps.commits.empty() || !steps.to_controller.empty() || steps.has_left ||
         !steps.violation.empty();
}

}  // namespace paceline::explore
