// Goal: a program that fails by itself is tried again only where that can help, one without the
// library is asked to end before it is ended, and neither is forgotten when the controller is.
// Method: the core with one host of two ranks, and perhaps a cold spare, played by the test.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/str.h"
#include "core/control/controller_core.h"

namespace paceline::control {
namespace {

constexpr HostId kHost{1}, kSpareHost{2};

class RestartTest : public ::testing::Test {
 protected:
  void submit(bool is_aware, uint32_t spare_hosts = 0) {
    JobSpec spec;
    spec.program.arguments = {"program"};
    spec.ranks_per_host = 2;
    spec.is_aware = is_aware;
    spec.spare_hosts = spare_hosts;
    spec.has_hot_spares = spare_hosts == 0;
    step(Submit{spec});
    AgentHello spare;
    spare.host_name = "host1";
    if (spare_hosts > 0) step(HostConnected{kSpareHost, spare});
    connect({});
    start_all();
  }
  void step(const Event& event, Duration after = Duration::milliseconds(1)) {
    now_ = now_ + after;
    core_->step(now_, event);
    Effects effects = core_->take_effects();
    for (JournalRecord& record : effects.journal) journal_.push_back(std::move(record));
    for (const SendHost& send : effects.sends) {
      if (const auto* desired = std::get_if<Desired>(&send.command))
        (send.host == kHost ? desired_ : desired_of_spare_) = *desired;
      if (const auto* to_rank = std::get_if<ToRank>(&send.command))
        if (const auto* prepare = std::get_if<Prepare>(&to_rank->message))
          prepared_ = prepare->number;
    }
    for (const JobEvent& told : effects.watch) {
      if (const auto* ended = std::get_if<JobEnded>(&told)) ended_ = *ended;
      if (const auto* notice = std::get_if<Notice>(&told)) notices_ += notice->text + "\n";
    }
  }
  void connect(const std::vector<DesiredRank>& running) {
    AgentHello hello;
    hello.host_name = "host0";
    hello.agent_instance = 1;
    for (const DesiredRank& each : running) {
      RankPresence presence;
      presence.rank = each.rank;
      presence.process_id = 1;
      hello.ranks.push_back(presence);
    }
    step(HostConnected{kHost, hello});
  }
  void restart_controller() {
    core_.emplace();
    for (const JournalRecord& record : journal_) core_->restore(record);
    step(Restarted{});
    connect(desired_.ranks);
  }
  void say(HostEvent event) { step(HostSaid{kHost, std::move(event)}); }
  void start_all() {
    started_ = desired_.ranks;
    for (const DesiredRank& each : started_) say(RankStarted{.rank = each.rank, .process_id = 1});
  }
  void up_all() {
    for (const DesiredRank& each : started_)
      say(RankUp{.rank = each.rank, .endpoint = {1, 1}, .process_id = 1});
  }
  void exits(size_t index, int32_t code, Turn committed = Turn(0)) {
    RankEnded ended;
    ended.rank = started_.at(index).rank;
    ended.how = RankEnded::How::Exited;
    ended.code = code;
    ended.committed = committed;
    ended.last_lines = {"the last line"};
    say(ended);
  }
  void was_killed(size_t index, int32_t signal, bool by_agent) {
    RankEnded ended;
    ended.rank = started_.at(index).rank;
    ended.how = RankEnded::How::Killed;
    ended.code = signal;
    ended.was_ended_by_agent = by_agent;
    say(ended);
  }
  // Two ranks train until the second ends by itself; the first goes on alone.
  void lose_rank_1() {
    up_all();
    for (const DesiredRank& each : started_) {
      FromRank report;
      report.rank = each.rank;
      report.report.prepare = prepared_;
      say(report);
    }
    for (const DesiredRank& each : started_)
      say(RankEntered{each.rank, prepared_, Turn(0), Step(0)});
    const RankId member = started_.at(0).rank;
    exits(1, 3, Turn(5));
    say(FromRank{member,
                 {.prepare = prepared_,
                  .epoch = EpochNumber(1),
                  .committed = Turn(5),
                  .step = Step(5),
                  .has_voted = false,
                  .held = {}}});
    say(RankEntered{member, prepared_, Turn(5), Step(5)});
  }
  // In the repaired epoch.
  void commit_again() {
    RankSample sample;
    sample.turn = Turn(5);
    sample.step = Step(5);
    sample.epoch = prepared_;
    sample.committed = now_;
    Window window;
    window.at = now_;
    window.samples.emplace_back(started_.at(0).rank, sample);
    say(window);
  }
  Incarnation incarnation_of_rank_1() const { return desired_.ranks.at(1).rank.incarnation; }
  void joiner_fails_twice() {
    const RankId member = started_.at(0).rank;
    for (int i = 0; i < 2; ++i) {
      start_all();
      ASSERT_EQ(started_.size(), 2u) << "tried again";
      say(RankEntered{member, prepared_, Turn(100 + 10 * static_cast<uint64_t>(i)),
                      Step(100 + 10 * static_cast<uint64_t>(i))});  // the others make progress
      exits(1, 3);
    }
  }
  // The only process on the spare host ends by itself.
  void spare_fails() {
    ASSERT_EQ(desired_of_spare_.ranks.size(), 1u);
    RankEnded ended;
    ended.rank = desired_of_spare_.ranks[0].rank;
    ended.how = RankEnded::How::Exited;
    ended.code = 3;
    step(HostSaid{kSpareHost, RankStarted{.rank = ended.rank, .process_id = 1}});
    step(HostSaid{kSpareHost, ended});
  }
  // One rank of a program without the library fails, and the other is ended for it.
  void attempt_fails(size_t who, int32_t code) {
    exits(who, code);
    if (ended_) return;
    was_killed(1 - who, 15, true);
    start_all();
  }

  std::optional<ControllerCore> core_{std::in_place};
  Instant now_;
  std::vector<JournalRecord> journal_;
  Desired desired_;  // of kHost
  Desired desired_of_spare_;
  EpochNumber prepared_;
  std::vector<DesiredRank> started_;
  std::optional<JobEnded> ended_;
  std::string notices_;
};

// --- Programs without the library ---

TEST_F(RestartTest, UsageError_IsNotTriedAgain) {
  submit(false);
  exits(1, 64);
  ASSERT_TRUE(ended_);
  EXPECT_EQ(ended_->exit_code, 64);
  EXPECT_NE(ended_->reason.find("rank 1 on host0 exited with code 64"), std::string::npos)
      << ended_->reason;
  EXPECT_NE(ended_->reason.find("the last line"), std::string::npos) << ended_->reason;
}

TEST_F(RestartTest, SameCodeTwiceAtStart_WhicheverRank_EndsTheJob) {
  submit(false);
  attempt_fails(0, 1);
  ASSERT_FALSE(ended_);
  EXPECT_EQ(started_.at(0).rank.incarnation, Incarnation(2));
  attempt_fails(1, 1);
  ASSERT_TRUE(ended_);
  EXPECT_EQ(ended_->exit_code, 1);
}

TEST_F(RestartTest, OtherCodesOrLaterFailures_AreTriedUpToTheLimit) {
  submit(false);
  attempt_fails(0, 1);
  attempt_fails(0, 2);
  ASSERT_FALSE(ended_);
  step(Tick{}, Duration::seconds(11));
  attempt_fails(0, 2);
  ASSERT_FALSE(ended_) << "it has run for a while";
  step(Tick{}, Duration::seconds(11));
  attempt_fails(0, 2);
  ASSERT_TRUE(ended_) << "three restarts are the limit";
}

TEST_F(RestartTest, ControllerRestarted_CountsOn) {
  submit(false);
  attempt_fails(0, 1);
  restart_controller();
  attempt_fails(0, 2);
  restart_controller();
  attempt_fails(0, 3);
  restart_controller();
  ASSERT_FALSE(ended_);
  attempt_fails(0, 4);
  ASSERT_TRUE(ended_) << "three restarts are the limit, whoever counts them";
}

TEST_F(RestartTest, ControllerRestarted_RemembersTheFailureBefore) {
  submit(false);
  attempt_fails(0, 1);
  restart_controller();
  attempt_fails(0, 1);
  EXPECT_TRUE(ended_);
}

TEST_F(RestartTest, AttemptEnds_OthersAreAskedFirst) {
  submit(false);
  exits(0, 1);
  EXPECT_TRUE(desired_.ranks.empty());
  EXPECT_EQ(desired_.end_grace, Duration::seconds(3));
  was_killed(1, 15, true);
  EXPECT_EQ(desired_.ranks.size(), 2u);
  EXPECT_EQ(desired_.end_grace, Duration());
}

TEST_F(RestartTest, Stop_AsksAndWaits_75IfAllEndWell) {
  submit(false);
  step(StopRequested{});
  EXPECT_TRUE(desired_.ranks.empty());
  EXPECT_EQ(desired_.end_grace, Duration::seconds(10));
  ASSERT_FALSE(ended_);
  exits(0, 0);
  ASSERT_FALSE(ended_) << "the other may still be saving";
  exits(1, 0);
  ASSERT_TRUE(ended_);
  EXPECT_EQ(ended_->exit_code, 75);
}

TEST_F(RestartTest, Stop_HostOfAnIdleSpareIsAway_IsNotWaitedFor) {
  submit(false, 1);
  step(HostDisconnected{kSpareHost});
  step(StopRequested{});
  exits(0, 0);
  exits(1, 0);
  ASSERT_TRUE(ended_);
  EXPECT_EQ(ended_->exit_code, 75);
}

TEST_F(RestartTest, IdleSpare_IsNotWaitedForInTheEnd) {
  submit(false, 1);
  EXPECT_EQ(desired_of_spare_.ranks.size(), 0u);
  exits(0, 0);
  exits(1, 0);
  ASSERT_TRUE(ended_);
  EXPECT_EQ(ended_->exit_code, 0);
}

TEST_F(RestartTest, Stop_RankThatDoesNotEndWell_Is130AndNoRestart) {
  submit(false);
  step(StopRequested{});
  was_killed(0, 15, true);
  exits(1, 0);
  ASSERT_TRUE(ended_);
  EXPECT_EQ(ended_->exit_code, 130);
  EXPECT_TRUE(desired_.ranks.empty());
}

TEST_F(RestartTest, Stop_ControllerRestarted_WaitsForTheRanks) {
  submit(false);
  step(StopRequested{});
  core_.emplace();
  for (const JournalRecord& record : journal_) core_->restore(record);
  step(Restarted{});
  ASSERT_FALSE(ended_) << "nothing is known of the ranks yet";
  connect(started_);
  ASSERT_FALSE(ended_);
  EXPECT_EQ(desired_.end_grace, Duration::seconds(10));
  exits(0, 0);
  exits(1, 0);
  ASSERT_TRUE(ended_);
  EXPECT_EQ(ended_->exit_code, 75);
}

TEST_F(RestartTest, SecondStop_EndsAtOnce) {
  submit(false);
  step(StopRequested{});
  step(StopRequested{.is_immediate = true});
  EXPECT_EQ(desired_.end_grace, Duration());
  ASSERT_TRUE(ended_);
  EXPECT_EQ(ended_->exit_code, 130);
}

// --- Programs with the library ---

TEST_F(RestartTest, AwareRankThatFailsTwiceBeforeItsFirstCommit_EndsTheJobThatHasNone) {
  submit(true);
  exits(1, 3);
  ASSERT_FALSE(ended_);
  start_all();
  exits(1, 3);
  ASSERT_TRUE(ended_);
  EXPECT_EQ(ended_->exit_code, 3);
  EXPECT_NE(ended_->reason.find("rank 1 on host0 exited with code 3"), std::string::npos);
}

// Its start would take processors and memory from the repair.
TEST_F(RestartTest, LostRank_IsStartedAgainWhenTheOthersCommit) {
  submit(true);
  lose_rank_1();
  EXPECT_EQ(incarnation_of_rank_1(), Incarnation(1));
  commit_again();
  EXPECT_EQ(incarnation_of_rank_1(), Incarnation(2));
}

TEST_F(RestartTest, LostRank_IsStartedAgainBesideALongRepair) {
  submit(true);
  lose_rank_1();
  step(Tick{}, Duration::milliseconds(200));
  EXPECT_EQ(incarnation_of_rank_1(), Incarnation(1));
  step(Tick{}, Duration::milliseconds(100));
  EXPECT_EQ(incarnation_of_rank_1(), Incarnation(2));
}

TEST_F(RestartTest, AwareJoinerThatFailsBeforeItsFirstCommit_IsGivenUpAndTheJobGoesOn) {
  submit(true);
  lose_rank_1();
  commit_again();
  joiner_fails_twice();
  step(Tick{}, Duration::seconds(30));
  EXPECT_FALSE(ended_);
  EXPECT_EQ(desired_.ranks.at(1).rank.incarnation, Incarnation(3)) << "not for ever";
  EXPECT_NE(notices_.find("giving up rank 1 on host0 exited with code 3"), std::string::npos)
      << notices_;
}

// Each slot of the spare host is tried in its place; who was given up is none of them.
TEST_F(RestartTest, AwareJoinerThatIsGivenUp_IsNoColdSpare) {
  submit(true, 1);
  lose_rank_1();
  commit_again();
  joiner_fails_twice();
  EXPECT_EQ(desired_.ranks.size(), 1u);
  for (const SlotId spare : {SlotId(2), SlotId(3)}) {
    spare_fails();
    spare_fails();
    EXPECT_NE(notices_.find(str("giving up rank ", spare, " on host1")), std::string::npos)
        << notices_;
  }
  EXPECT_EQ(desired_of_spare_.ranks.at(0).rank, (RankId{SlotId(3), Incarnation(2)}));
  EXPECT_EQ(desired_.ranks.size(), 1u) << "rank 1 was given up before";
  EXPECT_FALSE(ended_);
}

}  // namespace
}  // namespace paceline::control
