// Goal: whatever happens to its ranks, a job ends with the same bits as one rank alone. Method:
// real processes under an agent in the test (testing/cluster.h).
#include "live/worker/job.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

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

}  // namespace
}  // namespace paceline::worker
