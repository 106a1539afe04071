// Goal: a host that holds no member, only processes that are to become members, is lost once its
// agent has been silent for long enough, and no host that trains is. Method: the core with two
// hosts of a rank each, played by the test; the rank of the second is killed and joins again.
#include <gtest/gtest.h>

#include "base/str.h"
#include "core/control/one_host_for_test.h"

namespace paceline::control {
namespace {

constexpr HostId kOther{2};

class UnwatchedHostTest : public OneHostTest {
 protected:
  void say_other(HostEvent event) { step(HostSaid{kOther, std::move(event)}); }
  void start_training() {
    JobSpec spec;
    spec.program.arguments = {"program"};
    spec.ranks_per_host = 1;
    spec.hosts_max = 2;
    spec.micro_batches = 4;
    step(Submit{spec});
    for (const HostId host : {kHost, kOther}) {
      AgentHello hello;
      hello.host_name = str("host", host);
      hello.agent_instance = 1;
      step(HostConnected{host, hello});
    }
    start(kMember);
    start_other(kFirst);
    for (const RankId rank : {kMember, kFirst}) answer(rank, EpochNumber(0), Turn(0));
    say(RankEntered{kMember, epoch_.number, kCommitted, Step(4)});
    say_other(RankEntered{kFirst, epoch_.number, kCommitted, Step(4)});
  }
  void start_other(RankId rank) {
    say_other(RankStarted{.rank = rank, .process_id = 1});
    say_other(RankUp{.rank = rank, .endpoint = {2, 1}, .process_id = 1});
  }
  void start_to_join() {
    start_training();
    RankEnded ended;
    ended.rank = kFirst;
    ended.how = RankEnded::How::Killed;
    ended.code = 9;
    say_other(ended);
    answer(kMember, epoch_.number, kCommitted);
    say(RankEntered{kMember, epoch_.number, kCommitted, Step(4)});
    commit(epoch_.number, Turn(6));
    incident_.reset();  // that of the loss is over
    start_other(kJoiner);
    ASSERT_TRUE(heal_.has_value());
  }
  bool is_lost() const { return incident_ && incident_->kind == IncidentKind::HostLost; }

  static constexpr RankId kFirst{SlotId(1), Incarnation(1)};
};

TEST_F(UnwatchedHostTest, SilentForLong_ItsJoinersAreGivenUp) {
  start_to_join();
  hear_agent_for(Duration::milliseconds(4900));
  EXPECT_FALSE(is_lost());
  hear_agent_for(Duration::milliseconds(200));
  ASSERT_TRUE(is_lost());
  EXPECT_EQ(incident_->host, kOther);
  EXPECT_TRUE(incident_->recovered) << "nobody who trains has lost anything";
  heal_.reset();
  hear_agent_for(Duration::seconds(10));
  EXPECT_EQ(incidents_.size(), 2u) << "the kill and the loss: it is lost once";

  // Its agent is heard again: the process is ended, and the slot gets another.
  say_other(Window{});
  EXPECT_FALSE(desires(kJoiner));
  RankEnded ended;
  ended.rank = kJoiner;
  ended.how = RankEnded::How::Killed;
  ended.was_ended_by_agent = true;
  say_other(ended);
  EXPECT_TRUE(desires({kJoiner.slot, kJoiner.incarnation.next()}));
}

TEST_F(UnwatchedHostTest, StreamClosed_IsJudgedSooner) {
  start_to_join();
  step(HostDisconnected{kOther});
  hear_agent_for(Duration::milliseconds(1900));
  EXPECT_FALSE(is_lost());
  hear_agent_for(Duration::milliseconds(200));
  EXPECT_TRUE(is_lost());
}

TEST_F(UnwatchedHostTest, HeardInTime_KeepsItsJoiners) {
  start_to_join();
  hear_agent_for(Duration::milliseconds(4900));
  say_other(Window{});
  hear_agent_for(Duration::milliseconds(4900));
  EXPECT_FALSE(is_lost());
}

TEST_F(UnwatchedHostTest, ControllerWasBlind_TheSilenceIsShorterByAsMuch) {
  start_to_join();
  hear_agent_for(Duration::seconds(2));
  step(Tick{}, Duration::seconds(10));  // it should have come after half a second
  EXPECT_FALSE(is_lost());
  hear_agent_for(Duration::seconds(2));
  EXPECT_FALSE(is_lost());
  hear_agent_for(Duration::seconds(1));
  EXPECT_TRUE(is_lost());
}

// What it had to read after each pause was read: the pauses do not add up to a host that lives.
TEST_F(UnwatchedHostTest, ControllerIsBlindAgainAndAgain_IsLostNevertheless) {
  start_to_join();
  for (int i = 0; i < 8 && !is_lost(); ++i) {
    step(Tick{}, Duration::milliseconds(700));
    EXPECT_FALSE(is_lost()) << "what waits to be read may be of the host";
    hear_agent_for(Duration::milliseconds(600));
  }
  EXPECT_TRUE(is_lost());
}

TEST_F(UnwatchedHostTest, HostThatTrains_IsNotJudgedByItsAgentAlone) {
  start_training();
  step(HostDisconnected{kOther});
  hear_agent_for(Duration::seconds(20));
  EXPECT_FALSE(incident_.has_value());
}

}  // namespace
}  // namespace paceline::control
