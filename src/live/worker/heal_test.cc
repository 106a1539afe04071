// Goal: a rank that is started anew takes the state of two members while they train on, joins them,
// and the job ends with the same bits. Method: real processes (testing/cluster.h).
#include <gtest/gtest.h>
#include <signal.h>

#include "live/worker/testing/cluster.h"
#include "live/worker/testing/trainer.h"

namespace paceline::worker {
namespace {

using testing::Cluster;
using testing::TrainerOptions;

uint64_t reference_digest(const TrainerOptions& trainer, uint32_t micro_batches) {
  SessionOptions options{
      .micro_batches = micro_batches, .seed = trainer.seed, .agent_socket = {}, .ring = {}};
  Result<std::unique_ptr<Job>> job = Job::open(std::move(options));
  EXPECT_TRUE(job.has_value());
  return testing::train(**job, trainer).digest;
}

class Heal : public ::testing::TestWithParam<ReduceMode> {};
INSTANTIATE_TEST_SUITE_P(Modes, Heal, ::testing::Values(ReduceMode::Exact, ReduceMode::Fast));

TEST_P(Heal, RankStartedAnew_JoinsWhileTheOthersTrain) {
  TrainerOptions trainer;
  trainer.steps = 250;
  trainer.on_micro_batch = [](uint32_t slot, const paceline_micro_batch& m) {
    if (slot == 1 && m.step == 3) {
      static int begun = 0;  // of this process: a joiner never sees step 3
      if (++begun == 2) ::raise(SIGKILL);
    }
  };
  Cluster cluster({.ranks = 3, .micro_batches = 8, .reduce = GetParam(), .trainer = trainer});
  bool is_started = false;
  cluster.on_turn = [&] {
    if (is_started || !cluster.rank(1).has_ended || cluster.rank(0).epoch != EpochNumber(2)) return;
    is_started = true;
    cluster.start_joiner(1);
  };
  ASSERT_TRUE(cluster.run());
  ASSERT_TRUE(is_started);
  EXPECT_EQ(cluster.digests().size(), 1u);
  ASSERT_TRUE(cluster.rank(1).done.has_value());
  EXPECT_FALSE(cluster.rank(1).done->has_left);
  EXPECT_EQ(cluster.rank(1).epoch, EpochNumber(3)) << "it never became a member";
  ASSERT_FALSE(cluster.rank(1).heals.empty());
  EXPECT_EQ(cluster.rank(1).heals.back().what, HealProgress::What::Level)
      << cluster.rank(1).heals.back().detail;
  if (GetParam() == ReduceMode::Exact) {
    trainer.on_micro_batch = {};
    EXPECT_EQ(cluster.digests(), std::set<uint64_t>{reference_digest(trainer, 8)});
  }
}

}  // namespace
}  // namespace paceline::worker
