// Goal: whatever happens to its ranks, a job ends with the same bits as one rank alone. Method:
// real processes under an agent in the test (testing/cluster.h).
#include "live/worker/job.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "base/check.h"
#include "base/rng.h"
#include "live/worker/testing/cluster.h"
#include "live/worker/testing/trainer.h"

namespace paceline::worker {
namespace {

using testing::Cluster;
using testing::TrainerOptions;
using testing::TrainerResult;

// The digest of a run of one rank without an agent: what every other run must end with.
uint64_t reference_digest(const TrainerOptions& trainer, uint32_t micro_batches) {
  SessionOptions options{
      .micro_batches = micro_batches, .seed = trainer.seed, .agent_socket = {}, .ring = {}};
  Result<std::unique_ptr<Job>> job = Job::open(std::move(options));
  EXPECT_TRUE(job.has_value());
  const TrainerResult result = testing::train(**job, trainer);
  EXPECT_EQ(result.status, PACELINE_OK);
  EXPECT_EQ(result.steps, trainer.steps);
  return result.digest;
}

uint64_t test_seed() {
  const char* text = std::getenv("PACELINE_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 11;
  std::cout << "PACELINE_TEST_SEED=" << seed << "\n";
  return seed;
}

os::Descriptor connect_to(Endpoint endpoint) {
  os::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(endpoint.port);
  address.sin_addr.s_addr = htonl(endpoint.address);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  return socket;
}

class JobOfRanks : public ::testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Ranks, JobOfRanks, ::testing::Values(1u, 2u, 3u, 4u));

TEST_P(JobOfRanks, ExactMode_SameDigestAsOneRankAlone) {
  const TrainerOptions trainer;
  Cluster cluster(
      {.ranks = GetParam(), .micro_batches = 8, .reduce = ReduceMode::Exact, .trainer = trainer});
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.digests(), std::set<uint64_t>{reference_digest(trainer, 8)});
}

TEST_P(JobOfRanks, FastMode_SameDigestOnAllRanks) {
  Cluster cluster(
      {.ranks = GetParam(), .micro_batches = 8, .reduce = ReduceMode::Fast, .trainer = {}});
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.digests().size(), 1u);
}

TEST(Job, RankKilledInMidStep_SurvivorsEndWithTheSameDigest) {
  TrainerOptions trainer;
  const uint64_t expected = reference_digest(trainer, 8);
  for (const uint32_t index : {1u, 5u}) {  // its first and its second micro-batch of the step
    trainer.on_micro_batch = [index](uint32_t slot, const paceline_micro_batch& m) {
      if (slot == 1 && m.step == 2 && m.index == index) ::raise(SIGKILL);
    };
    Cluster cluster(
        {.ranks = 4, .micro_batches = 8, .reduce = ReduceMode::Exact, .trainer = trainer});
    ASSERT_TRUE(cluster.run());
    EXPECT_EQ(cluster.digests(), std::set<uint64_t>{expected});
    EXPECT_TRUE(cluster.rank(1).has_ended);
    EXPECT_EQ(WTERMSIG(cluster.rank(1).exit_status), SIGKILL);
  }
}

// A seed gives the rank, the signal-free moment within the run and so the phase in which it dies.
TEST(Job, RankKilledAtRandomMoments_SurvivorsEndWithTheSameDigest) {
  const uint64_t seed = test_seed();
  TrainerOptions trainer;
  trainer.steps = 12;
  const uint64_t expected = reference_digest(trainer, 8);
  Rng rng(seed);
  for (int round = 0; round < 12; ++round) {
    Cluster cluster(
        {.ranks = 4, .micro_batches = 8, .reduce = ReduceMode::Exact, .trainer = trainer});
    const auto victims = 1 + rng.below(2);
    for (uint64_t i = 0; i < victims; ++i) {
      const auto slot = static_cast<uint32_t>(rng.below(4));
      const uint64_t turn = rng.below(12);
      const uint64_t spins = rng.below(4000);
      cluster.on_moment.push_back([&cluster, slot, turn, spins, count = uint64_t{0}]() mutable {
        const auto committed = cluster.rank(slot).shared().now.committed.load();
        if (cluster.rank(slot).epoch == EpochNumber(0) || committed < turn) return false;
        if (++count < spins / 1000) return false;
        cluster.kill(slot, SIGKILL);
        return true;
      });
    }
    ASSERT_TRUE(cluster.run()) << "PACELINE_TEST_SEED=" << seed << " round " << round;
    EXPECT_EQ(cluster.digests(), std::set<uint64_t>{expected})
        << "PACELINE_TEST_SEED=" << seed << " round " << round;
  }
}

TEST(Job, PlannedRebalance_IsEnteredAtACommitAndChangesNoBit) {
  TrainerOptions trainer;
  trainer.steps = 30;
  const uint64_t expected = reference_digest(trainer, 8);
  Cluster cluster(
      {.ranks = 3, .micro_batches = 8, .reduce = ReduceMode::Exact, .trainer = trainer});
  bool is_announced = false;
  cluster.on_turn = [&] {
    if (is_announced || !cluster.membership().can_announce()) return;
    if (cluster.rank(0).shared().now.committed.load() < 3) return;
    is_announced = true;
    // Member 0 becomes a hot spare; the ring changes its order.
    std::vector<Member> members = cluster.membership().base().members;
    std::swap(members[0], members[1]);
    cluster.membership().announce({.members = members, .owner = {0, 2, 2, 2, 0, 0, 2, 0}});
    cluster.carry_out();
  };
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.digests(), std::set<uint64_t>{expected});
  EXPECT_TRUE(is_announced);
  for (uint32_t slot = 0; slot < 3; ++slot) EXPECT_EQ(cluster.rank(slot).epoch, EpochNumber(2));
}

TEST(Job, RankLeavesByPlan_IsToldLeftAndTheOthersGoOn) {
  TrainerOptions trainer;
  trainer.steps = 30;
  const uint64_t expected = reference_digest(trainer, 8);
  Cluster cluster(
      {.ranks = 3, .micro_batches = 8, .reduce = ReduceMode::Exact, .trainer = trainer});
  bool is_announced = false;
  cluster.on_turn = [&] {
    if (is_announced || !cluster.membership().can_announce()) return;
    if (cluster.rank(0).shared().now.committed.load() < 3) return;
    is_announced = true;
    std::vector<Member> members = cluster.membership().base().members;
    members.erase(members.begin() + 1);
    cluster.membership().announce({.members = members, .owner = {0, 1, 0, 1, 0, 1, 0, 1}});
    cluster.carry_out();
  };
  ASSERT_TRUE(cluster.run());
  ASSERT_TRUE(cluster.rank(1).done.has_value());
  EXPECT_TRUE(cluster.rank(1).done->has_left);
  EXPECT_EQ(cluster.rank(0).done->state_digest, expected);
  EXPECT_EQ(cluster.rank(2).done->state_digest, expected);
  EXPECT_LT(cluster.rank(1).done->committed, cluster.rank(0).done->committed);
}

TEST(Job, LastEpoch_EveryRankStopsAtTheSameStep) {
  TrainerOptions trainer;
  trainer.steps = 1'000'000;
  Cluster cluster(
      {.ranks = 3, .micro_batches = 8, .reduce = ReduceMode::Exact, .trainer = trainer});
  bool is_announced = false;
  cluster.on_turn = [&] {
    if (is_announced || !cluster.membership().can_announce()) return;
    if (cluster.rank(0).shared().now.committed.load() < 3) return;
    is_announced = true;
    const Epoch& base = cluster.membership().base();
    cluster.membership().announce({.members = base.members, .owner = base.owner, .is_last = true});
    cluster.carry_out();
  };
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.digests().size(), 1u);
  for (uint32_t slot = 0; slot < 3; ++slot) {
    EXPECT_EQ(cluster.rank(slot).done->committed, cluster.rank(0).done->committed);
    EXPECT_FALSE(cluster.rank(slot).done->has_left);
    EXPECT_EQ(cluster.rank(slot).exit_status, 0);
  }
}

// In the midst of a step: its finish_step says LEFT, and all stand at the commit before.
TEST(Job, StopAtTarget_EveryRankGivesTheStepUpAtTheSameCommit) {
  TrainerOptions trainer;
  trainer.steps = 1'000'000;
  Cluster cluster(
      {.ranks = 3, .micro_batches = 8, .reduce = ReduceMode::Exact, .trainer = trainer});
  bool is_stopped = false;
  cluster.on_turn = [&] {
    if (is_stopped || cluster.membership().phase() != control::Membership::Phase::Idle) return;
    if (cluster.rank(0).shared().now.committed.load() < 3) return;
    is_stopped = true;
    cluster.membership().stop_at_target();
    cluster.membership().reform({});
    cluster.carry_out();
  };
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.digests().size(), 1u);
  for (uint32_t slot = 0; slot < 3; ++slot) {
    EXPECT_EQ(cluster.rank(slot).done->committed, cluster.rank(0).done->committed);
    EXPECT_FALSE(cluster.rank(slot).done->has_left);
    EXPECT_EQ(cluster.rank(slot).exit_status, 0);
  }
}

// Whoever computes micro-batch 5 of step 6 would end. Nobody does, and all agree on a sum without
// it.
TEST(Job, SkippedMicroBatch_IsInNoSumAndChangesTheBitsAlike) {
  constexpr uint64_t kStep = 6;
  constexpr uint32_t kPoison = 5;
  TrainerOptions trainer;
  trainer.steps = 15;
  const uint64_t whole = reference_digest(trainer, 8);
  trainer.on_micro_batch = [](uint32_t, const paceline_micro_batch& m) {
    if (m.step == kStep && m.index == kPoison) ::_exit(3);
  };
  Cluster cluster(
      {.ranks = 4, .micro_batches = 8, .reduce = ReduceMode::Exact, .trainer = trainer});
  cluster.membership().skip(Step(kStep), MicroBatch(kPoison));  // from the first decision on
  ASSERT_TRUE(cluster.run());
  ASSERT_EQ(cluster.digests().size(), 1u);
  EXPECT_NE(*cluster.digests().begin(), whole);
  for (uint32_t slot = 0; slot < 4; ++slot) EXPECT_TRUE(cluster.rank(slot).done.has_value());
}

// A flag that the test's process and those of its ranks see.
class SharedFlag {
 public:
  SharedFlag()
      : flag_(static_cast<std::atomic<bool>*>(::mmap(nullptr, sizeof(std::atomic<bool>),
                                                     PROT_READ | PROT_WRITE,
                                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    CHECK(flag_ != MAP_FAILED);
  }
  ~SharedFlag() { ::munmap(flag_, sizeof *flag_); }
  SharedFlag(const SharedFlag&) = delete;
  SharedFlag& operator=(const SharedFlag&) = delete;

  void raise() { flag_->store(true); }
  bool is_raised() const { return flag_->load(); }
  void wait() const {
    while (!is_raised()) ::sched_yield();
  }

 private:
  std::atomic<bool>* flag_;
};

// Rank `slot` has come to a barrier behind `steps` steps and waits in it.
bool is_in_barrier(const Cluster::Rank& rank, uint64_t steps) {
  const wire::RankNow& now = rank.shared().now;
  return now.step.load() == steps && now.phase.load() == static_cast<uint32_t>(RankPhase::Wait);
}

// Two barriers behind every step: all members come to all of them.
TEST(Job, BarriersBehindEveryStep_ChangeNoBit) {
  TrainerOptions trainer;
  trainer.between_steps = [](Job& job, uint64_t) {
    return job.barrier() == PACELINE_OK && job.barrier() == PACELINE_OK;
  };
  const uint64_t expected = reference_digest(trainer, 8);
  for (const uint32_t ranks : {2u, 5u}) {
    Cluster cluster(
        {.ranks = ranks, .micro_batches = 8, .reduce = ReduceMode::Exact, .trainer = trainer});
    ASSERT_TRUE(cluster.run());
    EXPECT_EQ(cluster.digests(), std::set<uint64_t>{expected});
    EXPECT_EQ(cluster.membership().base().number, EpochNumber(1)) << "something was repaired";
  }
}

// Struck while it waits there and while the others wait for it.
TEST(Job, RankKilledInABarrier_TheOthersPassItAndEndWithTheSameDigest) {
  constexpr uint64_t kSteps = 3;
  constexpr uint32_t kLate = 3;
  const uint64_t expected = reference_digest({}, 8);
  for (const uint32_t victim : {0u, 2u, kLate}) {
    SharedFlag is_struck;
    TrainerOptions trainer;
    trainer.between_steps = [&is_struck](Job& job, uint64_t steps) {
      if (job.barrier() != PACELINE_OK) return false;
      if (job.rank() == kLate && steps == kSteps) is_struck.wait();
      return job.barrier() == PACELINE_OK;
    };
    Cluster cluster(
        {.ranks = 4, .micro_batches = 8, .reduce = ReduceMode::Exact, .trainer = trainer});
    cluster.on_moment.push_back([&cluster, &is_struck, victim] {
      for (const uint32_t slot : {0u, 1u, 2u})
        if (!is_in_barrier(cluster.rank(slot), kSteps)) return false;
      cluster.kill(victim, SIGKILL);
      is_struck.raise();
      return true;
    });
    ASSERT_TRUE(cluster.run()) << victim;
    EXPECT_TRUE(is_struck.is_raised());
    EXPECT_EQ(cluster.digests(), std::set<uint64_t>{expected}) << victim;
    for (uint32_t slot = 0; slot < 4; ++slot)
      EXPECT_EQ(cluster.rank(slot).exit_status == 0, slot != victim) << slot;
  }
}

// The rank that is asked to end waits for one that never comes.
TEST(Job, AbortInABarrier_EndsTheCall) {
  constexpr uint64_t kSteps = 2;
  constexpr int kAborted = 17;
  SharedFlag has_ended;
  TrainerOptions trainer;
  trainer.between_steps = [&has_ended](Job& job, uint64_t steps) {
    if (steps != kSteps) return true;
    if (job.rank() == 1) {
      has_ended.wait();
      return true;
    }
    std::thread other([&job] { job.abort(); });
    const paceline_status status = job.barrier();
    other.join();
    ::_exit(status == PACELINE_EABORT ? kAborted : 1);
  };
  Cluster cluster(
      {.ranks = 2, .micro_batches = 8, .reduce = ReduceMode::Exact, .trainer = trainer});
  cluster.on_turn = [&] {
    if (cluster.rank(0).has_ended) has_ended.raise();
  };
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(WEXITSTATUS(cluster.rank(0).exit_status), kAborted);
  EXPECT_EQ(cluster.digests(), std::set<uint64_t>{reference_digest({}, 8)});
}

// Into the next step or to the end, before the others come to the barrier or while they wait in it.
TEST(Job, RankThatGoesOnWithoutTheBarrier_TheOthersAreToldWho) {
  constexpr uint64_t kLast = 5;
  for (const uint64_t where : {uint64_t{2}, kLast}) {
    for (const bool is_first : {true, false}) {
      SharedFlag may_go_on;
      TrainerOptions trainer;
      trainer.steps = kLast;
      trainer.between_steps = [&](Job& job, uint64_t steps) {
        if (steps != where) return true;
        if (job.rank() == 1) {
          if (!is_first) may_go_on.wait();
          return true;
        }
        const paceline_status status = job.barrier();
        const std::string error = job.last_error();
        if (status != PACELINE_EINVAL || error.find("rank 1 does not come") == std::string::npos)
          ::_exit(18);
        return true;
      };
      Cluster cluster(
          {.ranks = 3, .micro_batches = 6, .reduce = ReduceMode::Exact, .trainer = trainer});
      cluster.on_turn = [&] {
        if (is_in_barrier(cluster.rank(0), where) && is_in_barrier(cluster.rank(2), where))
          may_go_on.raise();
      };
      ASSERT_TRUE(cluster.run()) << where << is_first;
      for (uint32_t slot = 0; slot < 3; ++slot)
        EXPECT_EQ(cluster.rank(slot).exit_status, 0) << slot << " " << where << is_first;
    }
  }
}

TEST(Job, BarrierWithinAStep_IsRefused) {
  TrainerOptions trainer;
  trainer.in_micro_batch = [](Job& job, const paceline_micro_batch&) {
    if (job.barrier() != PACELINE_EINVAL) ::_exit(19);
  };
  const uint64_t expected = reference_digest(trainer, 4);
  Cluster cluster(
      {.ranks = 2, .micro_batches = 4, .reduce = ReduceMode::Exact, .trainer = trainer});
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.digests(), std::set<uint64_t>{expected});
}

// What is compared tells the rank whose memory has changed from those that agree.
TEST(Job, StateIsCompared_ACorruptedRankDiffersFromTheOthers) {
  TrainerOptions trainer;
  trainer.steps = 3 * kDigestInterval - 1;
  trainer.on_update = [](uint32_t slot, uint64_t steps, std::span<float> parameters) {
    if (slot == 2 && steps == kDigestInterval + 3) parameters[17] += 1.0f;
  };
  Cluster cluster(
      {.ranks = 3, .micro_batches = 8, .reduce = ReduceMode::Exact, .trainer = trainer});
  ASSERT_TRUE(cluster.run());
  for (uint32_t slot = 0; slot < 3; ++slot) {
    const auto& compared = cluster.rank(slot).compared;
    ASSERT_EQ(compared.size(), 2u) << slot;
    EXPECT_EQ(compared[0].step, Step(kDigestInterval));
    EXPECT_EQ(compared[1].step, Step(2 * kDigestInterval));
    EXPECT_EQ(compared[0].digest, cluster.rank(0).compared[0].digest);
  }
  EXPECT_EQ(cluster.rank(1).compared[1].digest, cluster.rank(0).compared[1].digest);
  EXPECT_NE(cluster.rank(2).compared[1].digest, cluster.rank(0).compared[1].digest);
}

// A lead that is lost is followed by another: one rank speaks at every step.
TEST(Job, Lead_IsOneRankAtATimeAndFollowsALoss) {
  TrainerOptions trainer;
  trainer.steps = 12;
  trainer.logs_lead = true;
  trainer.on_micro_batch = [](uint32_t slot, const paceline_micro_batch& m) {
    if (slot == 0 && m.step == 5) ::raise(SIGKILL);
  };
  Cluster cluster(
      {.ranks = 3, .micro_batches = 6, .reduce = ReduceMode::Exact, .trainer = trainer});
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.rank(0).shared().metrics_written.load(), 5u);
  EXPECT_EQ(cluster.rank(1).shared().metrics_written.load(), trainer.steps - 5);
  EXPECT_EQ(cluster.rank(2).shared().metrics_written.load(), 0u);
}

// An epoch of the largest V fits every buffer on its way; each rank holds thousands.
TEST(Job, MostMicroBatches_TrainAndSurviveALoss) {
  TrainerOptions trainer;
  trainer.steps = 2;
  trainer.buckets = {{16}};
  const uint64_t expected = reference_digest(trainer, kMaxMicroBatches);
  trainer.on_micro_batch = [](uint32_t slot, const paceline_micro_batch& m) {
    if (slot == 1 && m.step == 1 && m.index > 40'000) ::raise(SIGKILL);
  };
  Cluster cluster({.ranks = 3,
                   .micro_batches = kMaxMicroBatches,
                   .reduce = ReduceMode::Exact,
                   .trainer = trainer});
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.digests(), std::set<uint64_t>{expected});
  EXPECT_TRUE(cluster.rank(1).has_ended);
}

TEST(Job, StoppedRank_IsReportedSilentAndHeardAgain) {
  TrainerOptions trainer;
  trainer.steps = 1'000'000;  // until it is stopped
  Cluster cluster(
      {.ranks = 2, .micro_batches = 4, .reduce = ReduceMode::Exact, .trainer = trainer});
  const auto count = [&](PeerTrouble::What what) {
    const auto& notices = cluster.rank(0).notices;
    return std::count(notices.begin(), notices.end(), wire::PeerNotice{cluster.rank(1).id, what});
  };
  int stage = 0;
  cluster.on_turn = [&] {
    if (stage == 0 && cluster.rank(1).shared().now.committed.load() >= 2) {
      cluster.kill(1, SIGSTOP);
      stage = 1;
    } else if (stage == 1 && count(PeerTrouble::What::Silent) == 1) {
      cluster.kill(1, SIGCONT);
      stage = 2;
    } else if (stage == 2 && count(PeerTrouble::What::HeardAgain) == 1) {
      const Epoch& base = cluster.membership().base();
      cluster.membership().announce(
          {.members = base.members, .owner = base.owner, .is_last = true});
      cluster.carry_out();
      stage = 3;
    }
  };
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(count(PeerTrouble::What::Silent), 1);
  EXPECT_EQ(count(PeerTrouble::What::HeardAgain), 1);
  EXPECT_EQ(cluster.digests().size(), 1u);
}

TEST(Job, StrangersOnThePort_AreRefusedAndTrainingGoesOn) {
  TrainerOptions trainer;
  trainer.steps = 30;
  const uint64_t expected = reference_digest(trainer, 8);
  Cluster cluster(
      {.ranks = 3, .micro_batches = 8, .reduce = ReduceMode::Exact, .trainer = trainer});
  const uint64_t seed = test_seed();
  Rng rng(seed);
  std::vector<os::Descriptor> strangers;
  int refused = 0;
  cluster.on_turn = [&] {
    if (!cluster.rank(0).hello || strangers.size() >= 200) return;
    strangers.push_back(connect_to(cluster.rank(0).hello->endpoint));
    std::vector<std::byte> bytes(rng.below(300));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.below(256));
    if (strangers.size() % 3 == 0) {  // a well-formed Open with another token
      const FrameHeaderBytes header = encode_header(
          {.kind = FrameKind::Open, .sender = cluster.rank(1).id, .tag = Cluster::kToken + 1});
      bytes.assign(header.begin(), header.end());
    }
    ::send(strangers.back().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    std::byte answer{};
    for (const os::Descriptor& stranger : strangers)
      if (::recv(stranger.get(), &answer, 1, MSG_DONTWAIT) == 0) ++refused;
  };
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.digests(), std::set<uint64_t>{expected});
  EXPECT_GT(refused, 0);
  EXPECT_TRUE(cluster.rank(0).notices.empty());
}

TEST(Job, AgentGone_BlockedCallsReturnEagent) {
  Cluster cluster({.ranks = 2,
                   .micro_batches = 4,
                   .reduce = ReduceMode::Exact,
                   .trainer = {.steps = 1'000'000, .seed = 1, .on_micro_batch = {}}});
  cluster.on_turn = [&] {
    if (cluster.rank(0).shared().now.committed.load() < 2) return;
    for (uint32_t slot = 0; slot < 2; ++slot) cluster.hang_up(slot);
  };
  ASSERT_TRUE(cluster.run());
  for (uint32_t slot = 0; slot < 2; ++slot)
    EXPECT_EQ(WEXITSTATUS(cluster.rank(slot).exit_status), 11);  // the loop ended with an error
}

// A program that leaves a contribution out is refused its next call, and everybody can see that
// until a call is in order again.
TEST(Job, CallOutOfOrder_IsSeenUntilOneIsInOrder) {
  constexpr uint64_t kStep = 2;
  SharedFlag was_seen;
  TrainerOptions trainer;
  const uint64_t expected = reference_digest(trainer, 8);
  trainer.in_micro_batch = [&was_seen](Job& job, const paceline_micro_batch& m) {
    if (job.rank() != 1 || m.step != kStep) return;
    do {  // the test ends it, or the limit of the cluster
      paceline_micro_batch next{};
      if (job.finish_step() != PACELINE_EINVAL || job.next_micro_batch(&next) != PACELINE_EINVAL)
        ::_exit(12);
    } while (!was_seen.is_raised());
  };
  Cluster cluster(
      {.ranks = 2, .micro_batches = 8, .reduce = ReduceMode::Exact, .trainer = trainer});
  cluster.on_turn = [&] {
    EXPECT_EQ(cluster.rank(0).shared().now.refused_since.load(), 0);
    if (cluster.rank(1).shared().now.refused_since.load() != 0) was_seen.raise();
  };
  ASSERT_TRUE(cluster.run());
  EXPECT_TRUE(was_seen.is_raised());
  EXPECT_EQ(cluster.rank(1).shared().now.refused_since.load(), 0);
  EXPECT_EQ(cluster.digests(), std::set<uint64_t>{expected});
}

// What the agent reads of a rank that trains.
TEST(Job, SharedRing_HoldsOneSamplePerTurnAndABell) {
  TrainerOptions trainer;
  Cluster cluster(
      {.ranks = 2, .micro_batches = 8, .reduce = ReduceMode::Exact, .trainer = trainer});
  ASSERT_TRUE(cluster.run());
  const wire::RankRing& ring = cluster.rank(0).shared();
  EXPECT_EQ(ring.samples_written.load(), trainer.steps + 1);  // step 0 measures first
  EXPECT_EQ(ring.now.committed.load(), trainer.steps + 1);
  EXPECT_EQ(ring.now.step.load(), trainer.steps);
  EXPECT_EQ(ring.samples[0].is_flagged, 1u);
  for (uint64_t turn = 0; turn <= trainer.steps; ++turn) {
    const wire::SampleSlot& sample = ring.samples[turn];
    EXPECT_EQ(sample.sequence.load(), turn + 1);
    EXPECT_EQ(sample.turn, turn);
    EXPECT_EQ(sample.micro_batches, 4u);
    EXPECT_GT(sample.compute, 0);
    EXPECT_GE(sample.committed, sample.begun);
    EXPECT_LE(sample.compute + sample.wait, sample.committed - sample.begun);
  }
  EXPECT_EQ(ring.bell.is_armed.load(), 1u);
}

}  // namespace
}  // namespace paceline::worker
