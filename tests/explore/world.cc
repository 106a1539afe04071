#include "world.h"

#include <algorithm>

#include "base/check.h"
#include "base/str.h"

namespace paceline::explore {

using control::Membership;

World::World(const Config& config) : config_(config), divider_(config.has_spare) {}

// --- The first state ---

State World::initial() {
  State s;
  const size_t members = config_.has_spare ? kRanks : kRanks - 1;
  const bool has_joiner = config_.plan == Plan::Join;
  for (size_t r = 0; r < kRanks; ++r) {
    if (r >= members && !has_joiner) continue;
    Rank rank(r, config_, r >= members);
    s.rank[r] = ranks_.intern(rank, rank.digest());
    s.status[r] = Status::Up;
  }
  Controller journal(divider_);
  s.journal = controllers_.intern(journal, journal.digest());
  ControllerOutcome outcome;
  Controller controller(divider_);
  outcome.steps = controller.start(members);
  outcome.next = controllers_.intern(controller, controller.digest());
  for (const auto& [to, message] : outcome.steps.to_ranks)
    outcome.to_ranks.push_back(intern(message));
  follow(s, outcome);
  if (!config_.is_cold) {  // the first Prepare and its decision, undisturbed
    for (size_t r = 0; r < members; ++r) apply_to_rank(s, {ActionKind::TakeControl, uint8_t(r), 0});
    for (size_t r = 0; r < members; ++r) take_upward(s, r, take_head(s.to_controller[r]));
    for (size_t r = 0; r < members; ++r) apply_to_rank(s, {ActionKind::TakeControl, uint8_t(r), 0});
  }
  normalise(s);
  return s;
}

// --- Cores, each step computed once ---

const World::RankOutcome& World::rank_step(uint32_t rank, RankEvent event, uint32_t argument,
                                           size_t from) {
  const uint64_t key = key_of(rank, static_cast<uint64_t>(event), from, argument);
  return rank_steps_.get(key, [&] {
    Rank next = ranks_.at(rank);
    RankOutcome outcome;
    outcome.steps = run(next, event, argument, from);
    outcome.next = ranks_.intern(next, next.digest());
    for (const auto& [to, message] : outcome.steps.to_ranks)
      outcome.to_ranks.push_back(intern(message));
    for (const Message& message : outcome.steps.to_controller)
      outcome.to_controller.push_back(intern(message));
    return outcome;
  });
}

RankSteps World::run(Rank& rank, RankEvent event, uint32_t argument, size_t from) {
  switch (event) {
    case RankEvent::Begin:
      return rank.begin_micro_batch();
    case RankEvent::Accumulate:
      return rank.accumulate();
    case RankEvent::Data:
      return rank.take_data(from, messages_.at(argument));
    case RankEvent::Control:
      return rank.take_control(control_of(messages_.at(argument)));
    case RankEvent::Apply:
      return rank.apply_sums_of(ranks_.at(argument));
    case RankEvent::Learn:
      return rank.learn_epoch_of(ranks_.at(argument));
  }
  return {};
}

const World::ControllerOutcome& World::controller_step(uint32_t controller, ControllerEvent event,
                                                       size_t rank, uint32_t argument) {
  const uint64_t key = key_of(controller, static_cast<uint64_t>(event), rank, argument);
  return controller_steps_.get(key, [&] {
    Controller next = controllers_.at(controller);
    ControllerOutcome outcome;
    outcome.steps = run(next, event, rank, argument);
    outcome.next = controllers_.intern(next, next.digest());
    for (const auto& [to, message] : outcome.steps.to_ranks)
      outcome.to_ranks.push_back(intern(message));
    return outcome;
  });
}

ControllerSteps World::run(Controller& controller, ControllerEvent event, size_t rank,
                           uint32_t argument) {
  switch (event) {
    case ControllerEvent::Take:
      return controller.take(rank, messages_.at(argument));
    case ControllerEvent::LoseSilent:
      return controller.lost(rank, control::Loss::Silent);
    case ControllerEvent::LoseEnded:
      return controller.lost(rank, control::Loss::Ended);
    case ControllerEvent::SeeAgain:
      return controller.seen_again(rank);
    case ControllerEvent::Repeat:
      return controller.repeat(rank);
    case ControllerEvent::Reform:
      return controller.reform();
    case ControllerEvent::Announce:
      return controller.announce(config_.plan);
    case ControllerEvent::Restart:
      return controller.restart();
  }
  return {};
}

uint32_t World::journal_after(uint32_t journal, const ControllerOutcome& outcome) {
  if (outcome.steps.records.empty()) return journal;
  // An outcome is named by its address: outcomes are kept for good.
  const uint64_t name = reinterpret_cast<uintptr_t>(&outcome.steps);
  return journals_.get(key_of(journal, 0, 0, mix64(name)), [&] {
    Controller next = controllers_.at(journal);
    next.append(outcome.steps.records);
    return controllers_.intern(next, next.digest());
  });
}

// --- Channels ---

uint32_t World::intern(const Message& message) {
  return messages_.intern(message, digest_of(message));
}

uint32_t World::pushed(uint32_t queue, uint32_t message) {
  return pushes_.get(key_of(queue, 0, 0, message), [&] {
    std::vector<uint32_t> messages;
    if (queue != 0) messages = queues_.at(queue).messages;
    messages.push_back(message);
    return intern_queue(std::move(messages));
  });
}

uint32_t World::intern_queue(std::vector<uint32_t> messages) {
  uint32_t rest = 0;
  for (size_t start = messages.size(); start-- > 0;) {
    Digest d;
    Queue queue{
        messages[start], rest, {messages.begin() + static_cast<ptrdiff_t>(start), messages.end()}};
    for (const uint32_t message : queue.messages) d.add(message);
    rest = queues_.intern(std::move(queue), d.value());
  }
  return rest;
}

uint32_t World::take_head(uint32_t& queue) const {
  CHECK(queue != 0);
  const Queue& taken = queues_.at(queue);
  queue = taken.rest;
  return taken.head;
}

// --- Final states ---

bool World::has_stopped(const State& s) const { return is_phase(s, Membership::Phase::Stopped); }

// L1, L2: where only faults can still happen, everybody who belongs to the job is through.
void World::check_final(const State& s) const {
  if (has_stopped(s)) return;
  CHECK(s.controller != 0, "a restart is never a fault");
  const Membership& membership = controller(s).membership();
  if (membership.phase() == Membership::Phase::Waiting) {
    for (size_t r = 0; r < kRanks; ++r)
      if (membership.may_be_in_force(rank_id(r)) && (s.status[r] == Status::Frozen || is_cut(s, r)))
        return;
    throw Violation{"L1 the controller waits for nobody"};
  }
  EpochNumber epoch;
  bool is_anyone_left = false;
  for (size_t r = 0; r < kRanks; ++r) {
    is_anyone_left |= is_up(s, r) || s.status[r] == Status::Frozen;
    if (!is_up(s, r) || rank(s, r).is_joining() || is_cut(s, r)) continue;
    if (controller(s).known_loss(r)) continue;
    const rank::RankCore& core = rank(s, r).core();
    if (core.position().step != Step(config_.steps))
      throw Violation{str("L1 no action is left and rank ", "ABCD"[r], " waits")};
    if (epoch != EpochNumber(0) && epoch != core.epoch().number)
      throw Violation{"L2 ranks stay in different epochs"};
    epoch = core.epoch().number;
  }
  if (!is_anyone_left)
    throw Violation{"L1 nobody is left and the controller has not stopped the job"};
}

// --- Words ---

std::string World::describe(const State& s, const Action& a) const {
  const auto name = [](size_t r) { return std::string(1, "ABCD"[r]); };
  const std::string who = name(a.rank);
  const auto text = [&](uint32_t queue) { return explore::describe(messages_.at(head(queue))); };
  switch (a.kind) {
    case ActionKind::Begin:
      return who + " begins a micro-batch";
    case ActionKind::Accumulate:
      return who + " accumulates it in the next bucket";
    case ActionKind::TakeData:
      return who + " takes " + text(s.data[a.peer][a.rank]) + " from " + name(a.peer);
    case ActionKind::RefuseNewer:
      return who + " refuses " + text(s.data[a.peer][a.rank]) + " from " + name(a.peer);
    case ActionKind::TakeControl:
      return who + " takes " + text(s.to_rank[a.rank]);
    case ActionKind::TakeControlLeavingCopy:
      return who + " takes " + text(s.to_rank[a.rank]) + ", a copy stays under way";
    case ActionKind::TakeReport:
      return "controller takes from " + who + " the " + text(s.to_controller[a.rank]);
    case ActionKind::TakeReportLeavingCopy:
      return "controller takes from " + who + " the " + text(s.to_controller[a.rank]) +
             ", a copy stays under way";
    case ActionKind::ApplySums:
      return who + " applies the sums of one more turn from " + name(a.peer);
    case ActionKind::LearnEpoch:
      return who + " learns from " + name(a.peer) + " which epoch holds";
    case ActionKind::Die:
      return who + " dies" + (a.peer != 0 ? ", unsent messages are lost" : "");
    case ActionKind::Freeze:
      return who + " freezes";
    case ActionKind::Thaw:
      return who + " thaws";
    case ActionKind::Heal:
      return who + " sees the controller again";
    case ActionKind::Suspect:
      return who + " is frozen, and the controller learns that it is lost";
    case ActionKind::CrashAndRestart:
      return "controller dies and restarts from its journal";
    case ActionKind::DeclareLost:
      return "controller learns that " + who + " is lost";
    case ActionKind::SeeAgain:
      return "controller sees " + who + " again";
    case ActionKind::EndStray:
      return "controller ends the stray " + who;
    case ActionKind::Repeat:
      return "controller repeats to " + who + " what it waits for";
    case ActionKind::CopyArrives:
      return "the copy arrives";
    case ActionKind::LoseConnection:
      return "the connection " + who + "-" + name(a.peer) + " is lost";
    case ActionKind::HearOfConnection:
      return "controller hears of the lost connection";
    case ActionKind::Announce:
      return "controller announces a planned epoch";
    case ActionKind::Crash:
      return "controller dies";
    case ActionKind::Restart:
      return "controller restarts from its journal";
    case ActionKind::Cut:
      break;
  }
  std::string group;
  for (size_t r = 0; r < kRanks; ++r)
    if ((a.peer >> r & 1) != 0) group += name(r);
  return group + " cut off from the controller";
}

}  // namespace paceline::explore
