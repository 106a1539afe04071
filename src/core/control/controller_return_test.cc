// Goal: a controller that is started again does not take agents that are still on their way back
// for lost hosts. Method: the core with two hosts of one rank each, played by the test; the first
// one's agent is back, and its rank misses the other's.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/control/controller_core.h"

namespace paceline::control {
namespace {

constexpr HostId kHosts[] = {HostId(0), HostId(1)};
constexpr RankId kRanks[] = {{SlotId(0), Incarnation(1)}, {SlotId(1), Incarnation(1)}};
constexpr Turn kCommitted{5};

class ReturnTest : public ::testing::Test {
 protected:
  void SetUp() override {
    core_.emplace();
    JobSpec spec;
    spec.program.arguments = {"program"};
    spec.ranks_per_host = 1;
    spec.hosts_max = 2;
    spec.micro_batches = 4;
    spec.is_aware = true;
    step(Submit{spec});
    for (const HostId host : kHosts) step(HostConnected{host, hello(host, false)});
    for (const HostId host : kHosts) start(host);
    for (const HostId host : kHosts) {
      FromRank report;
      report.rank = rank_of(host);
      report.report.prepare = prepared_;
      say(host, report);
    }
    for (const HostId host : kHosts)
      say(host, RankEntered{rank_of(host), prepared_, Turn(0), Step(0)});
    ASSERT_NE(prepared_, EpochNumber(0));
  }
  static RankId rank_of(HostId host) { return kRanks[host.value()]; }

  void step(const Event& event, Duration after = Duration::milliseconds(1)) {
    now_ = now_ + after;
    core_->step(now_, event);
    Effects effects = core_->take_effects();
    for (JournalRecord& record : effects.journal) journal_.push_back(std::move(record));
    for (const SendHost& send : effects.sends) {
      if (const auto* desired = std::get_if<Desired>(&send.command))
        if (send.host == kHosts[1]) desired_ = *desired;
      if (const auto* to_rank = std::get_if<ToRank>(&send.command))
        if (const auto* prepare = std::get_if<Prepare>(&to_rank->message))
          prepared_ = prepare->number;
    }
    for (const JobEvent& told : effects.watch)
      if (const auto* changed = std::get_if<IncidentChanged>(&told))
        incidents_.push_back(changed->incident);
  }
  void say(HostId host, HostEvent event) { step(HostSaid{host, std::move(event)}); }
  void start(HostId host) {
    say(host, RankStarted{.rank = rank_of(host), .process_id = 1});
    say(host, RankUp{.rank = rank_of(host), .endpoint = {1, 1}, .process_id = 1});
  }
  // The first rank goes on alone, in a later epoch.
  void lose_second_host() {
    trouble(PeerTrouble::What::Silent);
    hear_first_agent_for(Duration::milliseconds(600));
    ASSERT_TRUE(is_host_lost());
    FromRank report;
    report.rank = kRanks[0];
    report.report = {.prepare = prepared_,
                     .epoch = EpochNumber(1),
                     .committed = kCommitted,
                     .step = Step(5),
                     .has_voted = false,
                     .held = {}};
    say(kHosts[0], report);
    say(kHosts[0], RankEntered{kRanks[0], prepared_, kCommitted, Step(5)});
  }
  AgentHello hello(HostId host, bool is_running) const {
    AgentHello hello;
    hello.host_name = host == kHosts[0] ? "host0" : "host1";
    hello.agent_instance = host.value() + 1;
    if (!is_running) return hello;
    RankPresence presence;
    presence.rank = rank_of(host);
    presence.endpoint = {1, 1};
    presence.epoch = prepared_;
    presence.committed = kCommitted;
    hello.ranks = {presence};
    return hello;
  }
  void restart_controller() {
    core_.emplace();
    for (const JournalRecord& record : journal_) core_->restore(record);
    step(Restarted{});
    step(HostConnected{kHosts[0], hello(kHosts[0], true)});
    trouble(PeerTrouble::What::Silent);
  }
  // Rank 0 about rank 1.
  void trouble(PeerTrouble::What what) {
    PeerTrouble trouble;
    trouble.reporter = kRanks[0];
    trouble.peer = kRanks[1];
    trouble.what = what;
    say(kHosts[0], trouble);
  }
  void hear_first_agent_for(Duration time) {
    for (const Instant end = now_ + time; now_ < end;) {
      Window window;
      window.at = now_;
      step(HostSaid{kHosts[0], window}, Duration::milliseconds(10));
    }
  }
  bool is_host_lost() const {
    return std::any_of(incidents_.begin(), incidents_.end(),
                       [](const Incident& each) { return each.kind == IncidentKind::HostLost; });
  }

  std::optional<ControllerCore> core_;
  Instant now_ = Instant::from_nanoseconds(1'000'000'000);
  EpochNumber prepared_;
  Desired desired_;  // of the second host
  std::vector<JournalRecord> journal_;
  std::vector<Incident> incidents_;
};

TEST_F(ReturnTest, AgentOnItsWayBack_ItsHostIsNotLost) {
  restart_controller();
  hear_first_agent_for(Duration::milliseconds(1800));
  step(HostConnected{kHosts[1], hello(kHosts[1], true)});
  trouble(PeerTrouble::What::HeardAgain);
  hear_first_agent_for(Duration::milliseconds(400));
  EXPECT_FALSE(is_host_lost());
}

TEST_F(ReturnTest, AgentThatDoesNotComeBack_ItsHostIsLostAfterTwoSeconds) {
  restart_controller();
  hear_first_agent_for(Duration::milliseconds(1900));
  EXPECT_FALSE(is_host_lost());
  hear_first_agent_for(Duration::milliseconds(200));
  EXPECT_TRUE(is_host_lost());
}

// It was there in this life: that its stream is closed means something.
TEST_F(ReturnTest, StreamClosedAfterTheReturn_ItsHostIsLostAtOnce) {
  restart_controller();
  step(HostConnected{kHosts[1], hello(kHosts[1], true)});
  step(HostDisconnected{kHosts[1]});
  EXPECT_TRUE(is_host_lost());
}

// It was frozen when the others went on without it, and the controller that knew of it has ended.
TEST_F(ReturnTest, RankLeftBehindInAnEarlierLife_IsReplaced) {
  AgentHello late = hello(kHosts[1], true);
  lose_second_host();
  restart_controller();
  step(HostConnected{kHosts[1], late});
  EXPECT_TRUE(desired_.ranks.empty()) << "the process that was left behind is wanted";
  RankEnded ended;
  ended.rank = kRanks[1];
  ended.how = RankEnded::How::Killed;
  ended.was_ended_by_agent = true;
  say(kHosts[1], ended);
  hear_first_agent_for(Duration::seconds(2));
  ASSERT_EQ(desired_.ranks.size(), 1u);
  EXPECT_EQ(desired_.ranks[0].rank.incarnation, Incarnation(2));
}

TEST_F(ReturnTest, HostLostInAnEarlierLife_IsToldOfOnce) {
  lose_second_host();
  incidents_.clear();
  restart_controller();
  hear_first_agent_for(Duration::seconds(6));
  EXPECT_FALSE(is_host_lost());
}

// Its complaints are about an epoch that is over.
TEST_F(ReturnTest, RankLeftBehind_MissesNobody) {
  lose_second_host();
  restart_controller();
  step(HostConnected{kHosts[1], hello(kHosts[1], true)});
  PeerTrouble stale;
  stale.reporter = kRanks[1];
  stale.peer = kRanks[0];
  stale.what = PeerTrouble::What::ConnectionLost;
  const EpochNumber before = prepared_;
  say(kHosts[1], stale);
  hear_first_agent_for(Duration::milliseconds(200));
  EXPECT_EQ(prepared_, before);
}

}  // namespace
}  // namespace paceline::control
