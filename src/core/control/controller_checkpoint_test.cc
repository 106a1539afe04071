// Goal: when the last copy in memory is lost the job continues from disk, and otherwise says what
// would have helped. Method: the core with one host of two ranks, played by the test.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/control/controller_core.h"

namespace paceline::control {
namespace {

constexpr HostId kHost{1};

class RollBackTest : public ::testing::Test {
 protected:
  // A job of two ranks in its first epoch.
  void run_job(const std::string& checkpoint_directory) {
    JobSpec spec;
    spec.name = "job";
    spec.program.arguments = {"program"};
    spec.ranks_per_host = 2;
    spec.micro_batches = 4;
    spec.max_restarts = 2;
    spec.checkpoint_directory = checkpoint_directory;
    step(Submit{spec});
    AgentHello hello;
    hello.host_name = "host0";
    hello.agent_instance = 1;
    hello.address = 1;
    step(HostConnected{kHost, hello});
    start_desired();
  }

  void step(const Event& event) {
    now_ = now_ + Duration::milliseconds(1);
    core_->step(now_, event);
    Effects effects = core_->take_effects();
    for (JournalRecord& record : effects.journal) journal_.push_back(std::move(record));
    for (SendHost& send : effects.sends) take(send.command);
    for (const JobEvent& event_told : effects.watch)
      if (const auto* ended = std::get_if<JobEnded>(&event_told)) ended_ = *ended;
    if (effects.find_checkpoint) asked_for_ = effects.find_checkpoint;
  }
  void take(const HostCommand& command) {
    if (const auto* desired = std::get_if<Desired>(&command)) desired_ = *desired;
    const auto* to_rank = std::get_if<ToRank>(&command);
    if (to_rank == nullptr) return;
    if (const auto* prepare = std::get_if<Prepare>(&to_rank->message)) prepared_ = prepare->number;
    if (const auto* activate = std::get_if<Activate>(&to_rank->message)) epoch_ = activate->epoch;
  }
  void say(HostEvent event) { step(HostSaid{kHost, std::move(event)}); }

  // Every desired rank starts, and answers the Prepare from where it stands.
  void start_desired(Turn committed = Turn(0)) {
    const std::vector<DesiredRank> ranks = desired_.ranks;
    for (const DesiredRank& rank : ranks) say(RankStarted{.rank = rank.rank, .process_id = 1});
    for (const DesiredRank& rank : ranks)
      say(RankUp{.rank = rank.rank, .endpoint = {1, 1}, .process_id = 1});
    for (const DesiredRank& rank : ranks) {
      FromRank report;
      report.rank = rank.rank;
      report.report.prepare = prepared_;
      report.report.committed = committed;
      say(report);
    }
  }
  void reach(Turn committed, Step at) {
    for (const Member& member : epoch_.members)
      say(RankEntered{member.rank, epoch_.number, committed, at});
  }
  void kill_all() {
    for (const Member& member : std::vector<Member>(epoch_.members)) {
      RankEnded ended;
      ended.rank = member.rank;
      ended.how = RankEnded::How::Killed;
      ended.code = 9;
      say(ended);
    }
  }
  std::string resume_from() const {
    for (const auto& [name, value] : desired_.program.environment)
      if (name == "PACELINE_RESUME_FROM") return value;
    return "";
  }

  std::optional<ControllerCore> core_{std::in_place};
  Instant now_;
  std::vector<JournalRecord> journal_;
  Desired desired_;
  EpochNumber prepared_;
  Epoch epoch_;
  std::optional<std::string> asked_for_;
  std::optional<JobEnded> ended_;
};

TEST_F(RollBackTest, LastCopyLost_AllStartAgainFromTheCheckpointUnderHigherNumbers) {
  run_job("/checkpoints");
  ASSERT_EQ(epoch_.members.size(), 2u);
  reach(Turn(26), Step(25));
  const EpochNumber before = epoch_.number;
  kill_all();
  ASSERT_EQ(asked_for_, "/checkpoints");
  step(CheckpointFound{.path = "/checkpoints/20", .step = Step(20), .committed = Turn(21)});
  EXPECT_EQ(resume_from(), "/checkpoints/20");
  ASSERT_EQ(desired_.ranks.size(), 2u);
  for (const DesiredRank& rank : desired_.ranks) EXPECT_FALSE(rank.is_joiner);
  start_desired(Turn(21));
  EXPECT_GT(epoch_.number, before);
  EXPECT_EQ(epoch_.target, Turn(21));
  EXPECT_EQ(epoch_.members.size(), 2u);
  EXPECT_FALSE(ended_.has_value());
}

TEST_F(RollBackTest, NoDirectory_EndsAndNamesTheFlag) {
  run_job("");
  kill_all();
  ASSERT_TRUE(ended_.has_value());
  EXPECT_EQ(ended_->exit_code, 75);
  EXPECT_NE(ended_->reason.find("--checkpoint-dir"), std::string::npos) << ended_->reason;
}

TEST_F(RollBackTest, NoCheckpointYet_Ends) {
  run_job("/checkpoints");
  kill_all();
  step(CheckpointFound{});
  ASSERT_TRUE(ended_.has_value());
  EXPECT_EQ(ended_->exit_code, 75);
}

TEST_F(RollBackTest, NoNewerCheckpointInBetween_GivesUpAfterMaxRestarts) {
  run_job("/checkpoints");
  for (int i = 0; i < 3; ++i) {
    ASSERT_FALSE(ended_.has_value()) << i;
    kill_all();
    step(CheckpointFound{.path = "/checkpoints/20", .step = Step(20), .committed = Turn(21)});
    start_desired(Turn(21));
  }
  ASSERT_TRUE(ended_.has_value());
  EXPECT_EQ(ended_->exit_code, 75);
}

TEST_F(RollBackTest, ControllerRestartedInBetween_GoesOnFromTheSameCheckpoint) {
  run_job("/checkpoints");
  reach(Turn(26), Step(25));
  const EpochNumber before = epoch_.number;
  kill_all();
  step(CheckpointFound{.path = "/checkpoints/20", .step = Step(20), .committed = Turn(21)});
  core_.emplace();
  for (const JournalRecord& record : journal_) core_->restore(record);
  step(Restarted{});
  AgentHello hello;
  hello.host_name = "host0";
  hello.agent_instance = 1;
  hello.address = 1;
  step(HostConnected{kHost, hello});
  EXPECT_EQ(resume_from(), "/checkpoints/20");
  start_desired(Turn(21));
  EXPECT_GT(epoch_.number, before);
  EXPECT_EQ(epoch_.members.size(), 2u);
}

}  // namespace
}  // namespace paceline::control
