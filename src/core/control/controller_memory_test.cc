// Goal: what a controller has decided outlives it. Method: the core with one host of two ranks,
// played by the test; it ends at a chosen moment and another reads its journal.
#include <gtest/gtest.h>

#include "core/control/one_host_for_test.h"

namespace paceline::control {
namespace {

class MemoryTest : public OneHostTest {
 protected:
  // The joiner has become a member, and ends when it has begun so many micro-batches.
  void lose_entered_joiner(uint32_t begun) {
    announce_joiner();
    say(RankEntered{kMember, announced_->number, Turn(7), Step(6)});
    say(RankEntered{kJoiner, announced_->number, Turn(7), Step(6)});
    RankEnded dying;
    dying.rank = kJoiner;
    dying.committed = Turn(7);
    dying.begun = begun;
    say(dying);
  }
};

TEST_F(MemoryTest, RestartedWhileAnIncidentWaitsForItsCommit_TheCommitEndsIt) {
  start_to_heal();
  ASSERT_EQ(incidents_.size(), 1u);
  const Incident opened = *incident_;
  ASSERT_EQ(opened.kind, IncidentKind::Crash);
  ASSERT_FALSE(opened.recovered);
  restart_controller(epoch_.number);
  commit(epoch_.number, kCommitted.next());
  ASSERT_EQ(incidents_.size(), 1u);
  ASSERT_TRUE(incident_->recovered);
  Incident ended = *incident_;
  ended.recovered.reset();
  EXPECT_EQ(ended, opened) << "evidence, action and reason are those of the first life";
}

TEST_F(MemoryTest, RestartedBeforeTheDecision_TheIncidentIsRepairedAndEnds) {
  start_to_heal();
  commit(epoch_.number, kCommitted.next());
  const EpochNumber before = epoch_.number;
  announce_level_joiner();
  say(RankEntered{kMember, announced_->number, Turn(7), Step(6)});
  say(RankEntered{kJoiner, announced_->number, Turn(7), Step(6)});
  RankEnded dying;
  dying.rank = kJoiner;
  say(dying);
  ASSERT_EQ(incidents_.size(), 2u);
  EXPECT_FALSE(incidents_.rbegin()->second.aborted);
  restart_controller(announced_->number);
  answer(kMember, announced_->number, Turn(7));
  RankEnded ended = dying;
  ended.how = RankEnded::How::Killed;
  ended.code = 9;
  say(ended);
  ASSERT_GT(epoch_.number, announced_->number);
  EXPECT_EQ(incidents_.rbegin()->second.aborted, now_)
      << "every survivor has given up its collective";
  ASSERT_GT(announced_->number, before);
  commit(epoch_.number, Turn(8));
  EXPECT_EQ(incidents_.size(), 2u) << "the same death is not told twice";
  EXPECT_TRUE(incidents_.rbegin()->second.recovered);
}

// Two micro-batches of the four were the victim's, and of these it had begun one.
TEST_F(MemoryTest, Redone_CountsWhatTheVictimHadBegun) {
  lose_entered_joiner(1);
  FromRank report;
  report.rank = kMember;
  report.report.prepare = prepared_;
  report.report.epoch = announced_->number;
  report.report.committed = Turn(7);
  report.report.step = Step(6);
  report.report.held = {MicroBatch(0)};
  say(report);
  EXPECT_EQ(std::count(epoch_.lost_owner.begin(), epoch_.lost_owner.end(), 0), 3);
  EXPECT_EQ(incidents_.rbegin()->second.micro_batches_redone, 1u);
}

// It had not yet begun the step that runs: what it had done is in the sums.
TEST_F(MemoryTest, Redone_WorkOfACommittedStepIsNoLoss) {
  lose_entered_joiner(2);
  answer(kMember, announced_->number, Turn(8));
  EXPECT_EQ(incidents_.rbegin()->second.micro_batches_redone, 0u);
}

TEST_F(MemoryTest, EndedIncident_IsNotOpenAfterARestart) {
  start_to_heal();
  commit(epoch_.number, kCommitted.next());
  ASSERT_TRUE(incident_->recovered);
  incident_.reset();
  restart_controller(epoch_.number);
  commit(epoch_.number, Turn(7));
  EXPECT_FALSE(incident_) << "nothing more is said of it";
}

TEST_F(MemoryTest, StopWanted_IsAnnouncedByTheNextController) {
  start_to_heal();
  ASSERT_TRUE(heal_);
  RankEnded dying;  // a Prepare is under way, so the stop cannot be announced yet
  announce_level_joiner();
  dying.rank = kJoiner;
  say(dying);
  announced_.reset();
  step(StopRequested{});
  ASSERT_FALSE(announced_);
  restart_controller(epoch_.number);
  RankEnded ended = dying;
  ended.how = RankEnded::How::Killed;
  say(ended);
  answer(kMember, epoch_.number, kCommitted);
  ASSERT_TRUE(announced_);
  EXPECT_TRUE(announced_->is_last);
}

}  // namespace
}  // namespace paceline::control
