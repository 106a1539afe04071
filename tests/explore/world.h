// World: what can happen in a state, and what then follows. The cores do the deciding; this class
// carries messages, injects faults and watches the properties.
//
// Crashes of the controller: records are in the journal before anything that follows from them is
// sent. What a crash between the append and the sends leaves is what a crash after the sends leaves
// when nothing of them is delivered before the restart, since a restart empties the channels to the
// ranks; every part of them delivered is covered as well.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "controller.h"
#include "intern.h"
#include "rank.h"
#include "state.h"

namespace paceline::explore {

class World {
 public:
  explicit World(const Config& config);

  State initial();
  // The actions that change something, in a fixed order.
  std::vector<Action> actions(const State& state);
  // Throws Violation of S1, S2, S3, S5 or of "no switch goes back".
  State apply(const State& state, const Action& action);
  // Throws Violation of L1 or L2. REQUIRES: no action of `state` is fault-free.
  void check_final(const State& state) const;
  bool has_stopped(const State& state) const;

  std::string describe(const State& state, const Action& action) const;
  size_t rank_count() const { return ranks_.size(); }
  size_t controller_count() const { return controllers_.size(); }

 private:
  struct Queue {
    uint32_t head = 0;
    uint32_t rest = 0;
    std::vector<uint32_t> messages;
  };
  struct RankOutcome {
    uint32_t next = 0;
    RankSteps steps;
    std::vector<uint32_t> to_ranks, to_controller;  // messages of `steps`, interned
  };
  struct ControllerOutcome {
    uint32_t next = 0;
    ControllerSteps steps;
    std::vector<uint32_t> to_ranks;
  };
  enum class RankEvent : uint8_t { Begin, Accumulate, Data, Control, Apply, Learn };
  enum class ControllerEvent : uint8_t {
    Take,
    LoseSilent,
    LoseEnded,
    SeeAgain,
    Repeat,
    Reform,
    Announce,
    Restart
  };

  // --- Cores, each step computed once ---
  const RankOutcome& rank_step(uint32_t rank, RankEvent event, uint32_t argument, size_t from = 0);
  RankSteps run(Rank& rank, RankEvent event, uint32_t argument, size_t from);
  const ControllerOutcome& controller_step(uint32_t controller, ControllerEvent event, size_t rank,
                                           uint32_t argument = 0);
  ControllerSteps run(Controller& controller, ControllerEvent event, size_t rank,
                      uint32_t argument);
  uint32_t journal_after(uint32_t journal, const ControllerOutcome& outcome);

  // --- Channels ---
  uint32_t intern(const Message& message);
  uint32_t pushed(uint32_t queue, uint32_t message);
  uint32_t intern_queue(std::vector<uint32_t> messages);
  uint32_t head(uint32_t queue) const { return queues_.at(queue).head; }
  uint32_t take_head(uint32_t& queue) const;

  // --- Actions ---
  void add_rank_actions(const State& s, size_t r, std::vector<Action>& out);
  bool may_vote_next(const State& s, size_t r, const std::vector<Action>& actions);
  bool is_lost_news(const State& s, size_t r) const;
  void add_joiner_actions(const State& s, size_t r, std::vector<Action>& out);
  void add_rank_faults(const State& s, size_t r, std::vector<Action>& out) const;
  void add_controller_actions(const State& s, size_t r, std::vector<Action>& out) const;
  void add_job_actions(const State& s, std::vector<Action>& out) const;
  bool changes(const State& s, const Action& fault);
  void apply_to_rank(State& s, const Action& action);
  void apply_to_controller(State& s, const Action& action);
  void apply_fault(State& s, const Action& action);

  // --- Consequences ---
  void follow(State& s, size_t r, const RankOutcome& outcome);
  void follow(State& s, const ControllerOutcome& outcome);
  void take_upward(State& s, size_t r, uint32_t message);
  void tell_controller(State& s, size_t r, uint32_t message);
  void tell_where(State& s, size_t r);
  void declare_lost(State& s, size_t r);
  void end(State& s, size_t r, Status status);
  void normalise(State& s);
  void refuse_old(State& s, size_t r);
  bool take_invisible(State& s, size_t r);
  bool is_report_changed(uint32_t rank, const RankOutcome& outcome) const;
  bool take_invisible_report(State& s, size_t r);

  const Rank& rank(const State& s, size_t r) const { return ranks_.at(s.rank[r]); }
  const Controller& controller(const State& s) const { return controllers_.at(s.controller); }
  bool is_up(const State& s, size_t r) const { return s.status[r] == Status::Up; }
  bool is_cut(const State& s, size_t r) const { return (s.cut >> r & 1) != 0; }
  bool is_phase(const State& s, control::Membership::Phase phase) const {
    return s.controller != 0 && controller(s).membership().phase() == phase;
  }

  Config config_;
  Divider divider_;
  Interner<Rank> ranks_;
  Interner<Controller> controllers_;
  Interner<Message> messages_;
  Interner<Queue> queues_;
  Memo<RankOutcome> rank_steps_;
  Memo<ControllerOutcome> controller_steps_;
  Memo<uint32_t> journals_;
  Memo<uint32_t> pushes_;
};

}  // namespace paceline::explore
