// Goal: nobody waits for ever for a joiner that was announced, whatever becomes of it or of the
// controller. Method: the core with one host of two ranks, played by the test; rank 1 is killed and
// joins again.
#include <gtest/gtest.h>

#include "core/control/one_host_for_test.h"

namespace paceline::control {
namespace {

using JoinerTest = OneHostTest;

// The members of the announced epoch wait for the joiner: donors would never come to a commit.
TEST_F(JoinerTest, ControllerRestartedAfterTheAnnouncement_JoinerIsNotSentToDonorsAgain) {
  announce_joiner();
  heal_.reset();
  restart_controller(announced_->number);
  EXPECT_FALSE(heal_.has_value());
}

TEST_F(JoinerTest, FailsAfterTheAnnouncement_IsLeftOutAndHealsAgain) {
  announce_joiner();
  const EpochNumber announced = announced_->number;
  const uint32_t attempt = heal_->attempt;
  heal_.reset();
  restart_controller(announced);
  heal(HealProgress::What::Failed, attempt);
  ASSERT_GT(prepared_, announced) << "the member waits for the joiner";
  answer(kMember, announced, Turn(6));
  answer(kJoiner, EpochNumber(0), kCommitted);
  EXPECT_TRUE(epoch_.has(kMember));
  EXPECT_FALSE(epoch_.has(kJoiner));
  ASSERT_TRUE(heal_.has_value());
  EXPECT_NE(heal_->attempt, attempt);
}

TEST_F(JoinerTest, LevelInAnAttemptOfAnEarlierController_DoesNotCountForTheNext) {
  start_to_heal();
  ASSERT_TRUE(heal_.has_value());
  const uint32_t attempt = heal_->attempt;
  restart_controller(epoch_.number);
  ASSERT_NE(heal_->attempt, attempt);
  heal(HealProgress::What::Level, attempt);
  EXPECT_FALSE(announced_.has_value()) << "it has begun anew since";
  heal(HealProgress::What::Level, heal_->attempt);
  EXPECT_TRUE(announced_.has_value());
}

TEST_F(JoinerTest, NeverEntersTheAnnouncedEpoch_AnEpochWithoutItIsFormed) {
  announce_joiner();
  const EpochNumber announced = announced_->number;
  say(RankEntered{kMember, announced, Turn(6), Step(5)});
  hear_agent_for(Duration::milliseconds(1900));
  EXPECT_LT(prepared_, announced);
  hear_agent_for(Duration::milliseconds(200));
  ASSERT_GT(prepared_, announced);
  answer(kMember, announced, Turn(6));
  answer(kJoiner, EpochNumber(0), kCommitted);
  EXPECT_TRUE(epoch_.has(kMember));
  EXPECT_FALSE(epoch_.has(kJoiner));
}

TEST_F(JoinerTest, RankThatDoesNotAnswerWhileAgentsReport_IsLost) {
  announce_joiner();
  heal(HealProgress::What::Failed, heal_->attempt);
  ASSERT_GT(prepared_, announced_->number);
  answer(kJoiner, EpochNumber(0), kCommitted);
  hear_agent_for(Duration::milliseconds(600));
  ASSERT_TRUE(incident_.has_value());
  EXPECT_EQ(incident_->kind, IncidentKind::Hang);
  EXPECT_EQ(incident_->rank, kMember);
}

TEST_F(JoinerTest, StoppedDuringItsHeal_IsEndedAndStartedAgain) {
  start_to_heal();
  for (uint64_t turn = 5; turn < 9; ++turn) commit(epoch_.number, Turn(turn));
  hear_agent_for(Duration::milliseconds(450), {.is_joiner_stopped = true});
  EXPECT_TRUE(desires(kJoiner)) << "the limit has not passed";
  hear_agent_for(Duration::milliseconds(400), {.is_joiner_stopped = true});
  EXPECT_FALSE(desires(kJoiner));
  ASSERT_EQ(incident_->kind, IncidentKind::Hang);
  EXPECT_EQ(incident_->hang_class, HangClass::Stopped);
  EXPECT_EQ(incident_->rank, kJoiner);

  const uint32_t id = incident_->id;
  RankEnded ended;
  ended.rank = kJoiner;
  ended.how = RankEnded::How::Killed;
  ended.was_ended_by_agent = true;
  say(ended);
  hear_agent_for(Duration::seconds(2));  // the second start without progress waits for a while
  const RankId next{kJoiner.slot, kJoiner.incarnation.next()};
  ASSERT_TRUE(desires(next));
  heal_.reset();
  start(next);
  ASSERT_TRUE(heal_.has_value());
  HealProgress level;
  level.rank = next;
  level.attempt = heal_->attempt;
  level.what = HealProgress::What::Level;
  say(level);
  ASSERT_TRUE(announced_.has_value());
  for (const RankId rank : {kMember, next})
    say(RankEntered{rank, announced_->number, Turn(10), Step(9)});
  EXPECT_FALSE(incidents_[id].recovered);
  commit(announced_->number, Turn(11));
  EXPECT_TRUE(incidents_[id].recovered);
}

// The others make progress all the time: that is not its own.
TEST_F(JoinerTest, ThatNeverHeals_IsGivenUpWithTheReason) {
  start_to_heal();
  RankId joiner = kJoiner;
  uint32_t processes = 1;
  uint64_t turn = kCommitted.value();
  constexpr uint32_t kMost = 20;
  for (uint32_t failed = 0; heal_ && failed < kMost; ++failed) {
    const uint32_t attempt = std::exchange(heal_, std::nullopt)->attempt;
    turn += 3;
    RankView member;
    member.rank = kMember;
    member.phase = RankPhase::Wait;
    member.epoch = epoch_.number;
    member.committed = Turn(turn);
    member.step = Step(turn);
    member.last_beat = now_;
    Window window;
    window.at = now_;
    window.views = {member};
    say(std::move(window));
    HealProgress progress;
    progress.rank = joiner;
    progress.attempt = attempt;
    progress.what = HealProgress::What::Failed;
    progress.donor = kMember;
    progress.detail = "the gradient differs";
    say(progress);
    if (desires(joiner)) continue;
    RankEnded ended;
    ended.rank = joiner;
    ended.how = RankEnded::How::Killed;
    ended.was_ended_by_agent = true;
    say(ended);
    hear_agent_for(Duration::seconds(5));
    joiner.incarnation = joiner.incarnation.next();
    if (!desires(joiner)) break;
    ++processes;
    start(joiner);
  }
  EXPECT_EQ(processes, 3u) << "three restarts, and the first has been killed";
  EXPECT_FALSE(heal_.has_value()) << "it goes on for ever";
  ASSERT_FALSE(notices_.empty());
  EXPECT_NE(notices_.back().find("giving up"), std::string::npos) << notices_.back();
  EXPECT_NE(notices_.back().find("the gradient differs"), std::string::npos) << notices_.back();
}

TEST_F(JoinerTest, ControllerRestartedInAJobOfFewerHostsThanAskedFor_KnowsItsSize) {
  hosts_max_ = 2;
  start_to_heal();
  ASSERT_EQ(desired_.ranks.size(), 2u);
  ASSERT_EQ(desired_.ranks[0].world_size, 2u);
  restart_controller(epoch_.number);
  ASSERT_EQ(desired_.ranks.size(), 2u);
  EXPECT_EQ(desired_.ranks[0].world_size, 2u);
}

}  // namespace
}  // namespace paceline::control
