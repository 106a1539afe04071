// A controller core and one host of two ranks, played by the test: rank 1 is killed and joins
// again.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/control/controller_core.h"

namespace paceline::control {

inline constexpr HostId kHost{1};
inline constexpr RankId kMember{SlotId(0), Incarnation(1)};
inline constexpr RankId kJoiner{SlotId(1), Incarnation(2)};
inline constexpr Turn kCommitted{5};

// What the agent's windows say of the ranks.
struct Heard {
  bool is_joiner_stopped = false;  // and the member is seen to run
};

class OneHostTest : public ::testing::Test {
 protected:
  void step(const Event& event, Duration after = Duration::milliseconds(1)) {
    now_ = now_ + after;
    core_->step(now_, event);
    Effects effects = core_->take_effects();
    for (JournalRecord& record : effects.journal) journal_.push_back(std::move(record));
    for (SendHost& send : effects.sends) take(send.command);
    for (const JobEvent& told : effects.watch)
      if (const auto* changed = std::get_if<IncidentChanged>(&told)) {
        incident_ = changed->incident;
        incidents_[incident_->id] = *incident_;
      } else if (const auto* notice = std::get_if<Notice>(&told)) {
        notices_.push_back(notice->text);
      }
  }
  void take(const HostCommand& command) {
    if (const auto* heal = std::get_if<Heal>(&command)) heal_ = *heal;
    if (const auto* desired = std::get_if<Desired>(&command)) desired_ = *desired;
    const auto* to_rank = std::get_if<ToRank>(&command);
    if (to_rank == nullptr) return;
    if (const auto* prepare = std::get_if<Prepare>(&to_rank->message)) prepared_ = prepare->number;
    if (const auto* activate = std::get_if<Activate>(&to_rank->message)) epoch_ = activate->epoch;
    if (const auto* announce = std::get_if<Announce>(&to_rank->message))
      announced_ = announce->epoch;
  }
  void say(HostEvent event) { step(HostSaid{kHost, std::move(event)}); }
  // Windows of the agent, which come all the time: no Tick is due in between.
  void hear_agent_for(Duration time, Heard heard = {}) {
    constexpr Duration kInterval = Duration::milliseconds(10);
    for (const Instant end = now_ + time; now_ < end;) {
      Window window;
      window.at = now_;
      if (heard.is_joiner_stopped) {
        RankView member, joiner;
        member.rank = kMember;
        member.last_beat = now_;
        joiner.rank = kJoiner;
        joiner.is_stopped = true;
        window.views = {member, joiner};
      }
      step(HostSaid{kHost, std::move(window)}, kInterval);
    }
  }
  bool desires(RankId rank) const {
    return std::any_of(desired_.ranks.begin(), desired_.ranks.end(),
                       [rank](const DesiredRank& each) { return each.rank == rank; });
  }
  void start(RankId rank) {
    say(RankStarted{.rank = rank, .process_id = 1});
    say(RankUp{.rank = rank, .endpoint = {1, 1}, .process_id = 1});
  }
  void answer(RankId rank, EpochNumber epoch, Turn committed) {
    FromRank report;
    report.rank = rank;
    report.report.prepare = prepared_;
    report.report.epoch = epoch;
    report.report.committed = committed;
    say(report);
  }
  void heal(HealProgress::What what, uint32_t attempt) {
    HealProgress progress;
    progress.rank = kJoiner;
    progress.attempt = attempt;
    progress.what = what;
    progress.donor = kMember;
    say(progress);
  }

  // Rank 0 has trained alone since rank 1 was killed, and rank 1 heals from it.
  void start_to_heal() {
    JobSpec spec;
    spec.program.arguments = {"program"};
    spec.ranks_per_host = 2;
    spec.hosts_max = hosts_max_;
    spec.micro_batches = 4;
    spec.is_aware = is_aware_;
    step(Submit{spec});
    AgentHello hello;
    hello.host_name = "host0";
    hello.agent_instance = 1;
    step(HostConnected{kHost, hello});
    if (hosts_max_ > 1) step(Tick{}, spec.join_timeout);
    const RankId first{SlotId(1), Incarnation(1)};
    for (const RankId rank : {kMember, first}) start(rank);
    for (const RankId rank : {kMember, first}) answer(rank, EpochNumber(0), Turn(0));
    for (const RankId rank : {kMember, first})
      say(RankEntered{rank, epoch_.number, kCommitted, Step(4)});
    RankEnded ended;
    ended.rank = first;
    ended.how = RankEnded::How::Killed;
    ended.code = 9;
    say(ended);
    answer(kMember, epoch_.number, kCommitted);
    say(RankEntered{kMember, epoch_.number, kCommitted, Step(4)});
    // No commit comes: the start of the joiner waits for it no longer than this.
    hear_agent_for(Duration::milliseconds(260));
    start(kJoiner);
  }
  void announce_joiner() {
    start_to_heal();
    announce_level_joiner();
  }
  void announce_level_joiner() {
    ASSERT_TRUE(heal_.has_value());
    heal(HealProgress::What::Level, heal_->attempt);
    ASSERT_TRUE(announced_.has_value());
    ASSERT_TRUE(announced_->has(kJoiner));
  }
  // The agent tells the new controller of both ranks; the member is in `epoch`.
  void restart_controller(EpochNumber epoch) {
    core_.emplace();
    for (const JournalRecord& record : journal_) core_->restore(record);
    step(Restarted{});
    hello_from_both(epoch);
  }
  void hello_from_both(EpochNumber epoch) {
    AgentHello hello;
    hello.host_name = "host0";
    hello.agent_instance = 1;
    RankPresence member;
    member.rank = kMember;
    member.endpoint = {1, 1};
    member.epoch = epoch;
    member.committed = kCommitted;
    RankPresence joiner;
    joiner.rank = kJoiner;
    joiner.endpoint = {1, 1};
    hello.ranks = {member, joiner};
    step(HostConnected{kHost, hello});
  }
  // kMember has made a commit in `epoch`.
  void commit(EpochNumber epoch, Turn turn) {
    RankSample sample;
    sample.turn = turn;
    sample.step = Step(turn.value());
    sample.epoch = epoch;
    sample.micro_batches = 4;
    sample.begun = now_;
    sample.committed = now_ + Duration::milliseconds(1);
    sample.compute = Duration::milliseconds(1);
    Window window;
    window.at = now_;
    window.samples = {{kMember, sample}};
    say(std::move(window));
  }

  std::optional<ControllerCore> core_{std::in_place};
  Instant now_;
  uint32_t hosts_max_ = 1;
  bool is_aware_ = true;  // is the program taken for one that links the library?
  Desired desired_;
  std::vector<JournalRecord> journal_;
  EpochNumber prepared_;
  Epoch epoch_;
  std::optional<Epoch> announced_;
  std::optional<Heal> heal_;
  std::vector<std::string> notices_;
  std::optional<Incident> incident_;        // the newest word
  std::map<uint32_t, Incident> incidents_;  // the last word on each
};

}  // namespace paceline::control
