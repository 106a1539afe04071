// Goal: a micro-batch that ends two ranks goes to nobody else, whatever happens meanwhile. Method:
// the core with one host of three ranks, played by the test.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/control/controller_core.h"

namespace paceline::control {
namespace {

constexpr HostId kHost{1};
constexpr Step kStep{7};
constexpr MicroBatch kPoison{2};
constexpr int32_t kSegv = 11, kKill = 9;

RankId rank_of(uint32_t slot) { return {SlotId(slot), Incarnation(1)}; }

class PoisonTest : public ::testing::Test {
 protected:
  // Three ranks that have committed kStep steps.
  void run_job(PoisonPolicy policy) {
    JobSpec spec;
    spec.name = "job";
    spec.program.arguments = {"program"};
    spec.ranks_per_host = 3;
    spec.micro_batches = 6;
    spec.poison = policy;
    step(Submit{spec});
    AgentHello hello;
    hello.host_name = "host0";
    hello.agent_instance = 1;
    hello.address = 1;
    step(HostConnected{kHost, hello});
    for (uint32_t slot = 0; slot < 3; ++slot) {
      say(RankStarted{.rank = rank_of(slot), .process_id = 1});
      say(RankUp{.rank = rank_of(slot), .endpoint = {1, 1}, .process_id = 1});
    }
    answer({0, 1, 2}, Turn(0), Step(0));
    ASSERT_EQ(epoch_.members.size(), 3u);
    for (const Member& member : epoch_.members)
      say(RankEntered{member.rank, epoch_.number, Turn(8), kStep});
  }

  void step(const Event& event) {
    now_ = now_ + Duration::milliseconds(1);
    core_->step(now_, event);
    Effects effects = core_->take_effects();
    for (JournalRecord& record : effects.journal) journal_.push_back(std::move(record));
    for (const SendHost& send : effects.sends) take(send.command);
    for (const JobEvent& told : effects.watch) {
      if (const auto* ended = std::get_if<JobEnded>(&told)) ended_ = *ended;
      if (const auto* turn = std::get_if<TurnCommitted>(&told)) turns_.push_back(*turn);
      if (const auto* changed = std::get_if<IncidentChanged>(&told))
        if (changed->incident.kind == IncidentKind::Poison) incident_ = changed->incident;
    }
  }
  void take(const HostCommand& command) {
    const auto* to_rank = std::get_if<ToRank>(&command);
    if (to_rank == nullptr) return;
    if (const auto* prepare = std::get_if<Prepare>(&to_rank->message)) prepared_ = prepare->number;
    if (const auto* activate = std::get_if<Activate>(&to_rank->message)) epoch_ = activate->epoch;
  }
  void say(HostEvent event) { step(HostSaid{kHost, std::move(event)}); }
  void answer(const std::vector<uint32_t>& slots, Turn committed, Step at) {
    for (const uint32_t slot : slots)
      say(FromRank{rank_of(slot),
                   {.prepare = prepared_,
                    .epoch = epoch_.number,
                    .committed = committed,
                    .step = at,
                    .has_voted = false,
                    .held = {}}});
  }
  RankEnded end_of(uint32_t slot, RankEnded::How how, int32_t code) const {
    RankEnded ended;
    ended.rank = rank_of(slot);
    ended.how = how;
    ended.code = code;
    ended.was_in_micro_batch = true;
    ended.step = kStep;
    ended.micro_batch = kPoison;
    ended.micro_batch_seed = 0xabc;
    if (how != RankEnded::How::Dying)
      ended.last_lines = {"last line of rank " + std::to_string(slot)};
    return ended;
  }
  void begin_to_end(uint32_t slot) { say(end_of(slot, RankEnded::How::Dying, 0)); }
  void end(uint32_t slot, int32_t signal = kSegv) {
    say(end_of(slot, RankEnded::How::Killed, signal));
  }
  // The first rank ends by the micro-batch, and the others take it over.
  void end_first() {
    begin_to_end(1);
    answer({0, 2}, Turn(8), kStep);
    end(1);
    ASSERT_EQ(epoch_.members.size(), 2u);
    ASSERT_NE(epoch_.lost_owner[kPoison.value()], kNoMember) << "once is no proof";
  }
  void restart_controller() {
    core_.emplace();
    for (const JournalRecord& record : journal_) core_->restore(record);
    step(Restarted{});
    AgentHello hello;
    hello.host_name = "host0";
    hello.agent_instance = 1;
    hello.address = 1;
    RankPresence survivor;
    survivor.rank = rank_of(0);
    survivor.endpoint = {1, 1};
    survivor.epoch = epoch_.number;
    survivor.committed = Turn(8);
    survivor.step = kStep;
    hello.ranks = {survivor};
    step(HostConnected{kHost, hello});
  }

  std::optional<ControllerCore> core_{std::in_place};
  Instant now_;
  std::vector<JournalRecord> journal_;
  EpochNumber prepared_;
  Epoch epoch_;
  std::optional<JobEnded> ended_;
  std::optional<Incident> incident_;
  std::vector<TurnCommitted> turns_;
};

TEST_F(PoisonTest, SecondEnd_IsUnderstoodBeforeAThirdRankGetsIt) {
  run_job(PoisonPolicy::Stop);
  end_first();
  const EpochNumber before = epoch_.number;
  begin_to_end(2);
  answer({0}, Turn(8), kStep);
  EXPECT_EQ(epoch_.number, before) << "nobody knows yet how it ends";
  end(2);
  EXPECT_GT(epoch_.number, before);
  EXPECT_TRUE(epoch_.is_last);
  ASSERT_TRUE(incident_);
  EXPECT_EQ(incident_->action, ActionKind::Stop);
  for (const char* part : {"micro-batch 2 of step 7", "seed 0x0000000000000abc", "rank 1 on host0",
                           "last line of rank 1", "rank 2 on host0", "last line of rank 2"})
    EXPECT_NE(incident_->evidence.find(part), std::string::npos) << incident_->evidence;
  EXPECT_FALSE(ended_) << "the survivor saves its state first";

  say(RankDone{.rank = rank_of(0), .has_left = false, .committed = Turn(8), .state_digest = 5});
  now_ = now_ + Duration::seconds(1);
  step(Tick{});
  ASSERT_TRUE(ended_);
  EXPECT_EQ(ended_->verdict, Verdict::Failed);
  EXPECT_EQ(ended_->exit_code, 93);
  EXPECT_EQ(ended_->step, kStep);
  EXPECT_EQ(ended_->state_digest, 5u);
  EXPECT_NE(ended_->reason.find("last line of rank 1"), std::string::npos) << ended_->reason;
}

// Memory is freed between the bell and the status: the first may take longer than the second.
TEST_F(PoisonTest, SecondEndsBeforeTheFirstIsUnderstood_NobodyElseGetsIt) {
  run_job(PoisonPolicy::Stop);
  begin_to_end(1);
  answer({0, 2}, Turn(8), kStep);
  const EpochNumber before = epoch_.number;
  begin_to_end(2);
  answer({0}, Turn(8), kStep);
  end(2);
  EXPECT_EQ(epoch_.number, before);
  end(1);
  EXPECT_TRUE(epoch_.is_last);
}

TEST_F(PoisonTest, SecondKilledFromOutside_IsNoProof) {
  run_job(PoisonPolicy::Stop);
  end_first();
  begin_to_end(2);
  answer({0}, Turn(8), kStep);
  end(2, kKill);
  EXPECT_FALSE(epoch_.is_last);
  EXPECT_EQ(epoch_.members.size(), 1u);
  EXPECT_EQ(epoch_.lost_owner[kPoison.value()], 0u);
  EXPECT_FALSE(incident_);
}

TEST_F(PoisonTest, SecondLostWithItsHost_HoldsUpNobody) {
  run_job(PoisonPolicy::Stop);
  end_first();
  begin_to_end(2);
  answer({0}, Turn(8), kStep);
  const EpochNumber before = epoch_.number;
  step(HostDisconnected{kHost});
  restart_controller();
  answer({0}, Turn(8), kStep);
  EXPECT_GT(epoch_.number, before);
}

TEST_F(PoisonTest, Skip_LeavesItOutOfTheDecision_AndIsCounted) {
  run_job(PoisonPolicy::Skip);
  end_first();
  begin_to_end(2);
  answer({0}, Turn(8), kStep);
  end(2);
  EXPECT_FALSE(epoch_.is_last);
  EXPECT_EQ(epoch_.skipped, (std::vector<Skipped>{{kStep, kPoison}}));
  EXPECT_EQ(epoch_.lost_owner[kPoison.value()], kNoMember);
  ASSERT_TRUE(incident_);
  EXPECT_EQ(incident_->action, ActionKind::Skip);

  RankSample sample;
  sample.turn = Turn(8);
  sample.step = kStep;
  sample.epoch = epoch_.number;
  sample.micro_batches = 5;
  Window window;
  window.samples.emplace_back(rank_of(0), sample);
  say(window);
  ASSERT_EQ(turns_.size(), 1u) << "nothing more is waited for";
  EXPECT_EQ(turns_[0].skipped, 1u);
  EXPECT_TRUE(incident_->recovered);
}

TEST_F(PoisonTest, ControllerRestarted_BeforeTheDecision_DecidesTheSame) {
  for (const PoisonPolicy policy : {PoisonPolicy::Stop, PoisonPolicy::Skip}) {
    SCOPED_TRACE(policy == PoisonPolicy::Stop ? "stop" : "skip");
    core_.emplace();
    journal_.clear();
    epoch_ = {};
    run_job(policy);
    end_first();
    begin_to_end(2);
    end(2);  // the survivor has not answered yet
    restart_controller();
    answer({0}, Turn(8), kStep);
    EXPECT_EQ(epoch_.is_last, policy == PoisonPolicy::Stop);
    EXPECT_EQ(epoch_.skipped.size(), policy == PoisonPolicy::Skip ? 1u : 0u);
  }
}

TEST_F(PoisonTest, LastRanksEndByIt_TheJobIsNotTriedAgain) {
  run_job(PoisonPolicy::Stop);
  begin_to_end(0);
  end(0, kKill);
  answer({1, 2}, Turn(8), kStep);
  begin_to_end(1);
  answer({2}, Turn(8), kStep);
  end(1);
  begin_to_end(2);
  EXPECT_FALSE(ended_);
  end(2);
  ASSERT_TRUE(ended_);
  EXPECT_EQ(ended_->exit_code, 93);
}

}  // namespace
}  // namespace paceline::control
