// Goal: a job continues from its checkpoint with the same bits, and what does not fit is named.
// Method: one rank without an agent; real files.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "live/checkpoint/checkpoint_directory.h"
#include "live/worker/checkpoint_writer.h"
#include "live/worker/job.h"
#include "live/worker/testing/trainer.h"

namespace paceline::worker {
namespace {

using testing::TrainerOptions;
using testing::TrainerResult;

class CheckpointJobTest : public ::testing::Test {
 protected:
  CheckpointJobTest() {
    std::string pattern = ::testing::TempDir() + "checkpoint-job-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    options_.directory = folder_;
    options_.every = 2;
  }
  ~CheckpointJobTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Job> open(uint32_t micro_batches = 8) const {
    Result<std::unique_ptr<Job>> job = Job::open({.micro_batches = micro_batches,
                                                  .seed = trainer_.seed,
                                                  .checkpoint = options_,
                                                  .agent_socket = {},
                                                  .ring = {}});
    EXPECT_TRUE(job.has_value());
    return std::move(*job);
  }
  TrainerResult train(uint64_t steps) {
    trainer_.steps = steps;
    return testing::train(*open(), trainer_);
  }
  std::vector<uint64_t> steps() const {
    std::vector<uint64_t> found;
    for (const checkpoint::Entry& entry : checkpoint::list(folder_))
      found.push_back(entry.manifest.step.value());
    return found;
  }
  void resume_from_newest() {
    options_.resume_from = checkpoint::list(folder_).at(0).path;
    ++options_.generation;
  }
  // What the first begin_step of a program with other state says.
  std::string refusal(const char* name, size_t size_bytes, uint32_t micro_batches = 8) {
    std::vector<std::byte> state(size_bytes);
    const std::unique_ptr<Job> job = open(micro_batches);
    uint32_t bucket = 0;
    for (const std::vector<uint64_t>& tensors : trainer_.buckets)
      job->register_bucket("gradient", tensors, collective::Dtype::F32, &bucket);
    job->register_state(name, state);
    paceline_step step{};
    EXPECT_LT(job->begin_step(&step), 0);
    return job->last_error();
  }

  std::string folder_;
  CheckpointOptions options_;
  TrainerOptions trainer_;
};

TEST_F(CheckpointJobTest, Resumed_EndsWithTheBitsOfAnUndisturbedRun) {
  options_.directory.clear();
  const uint64_t expected = train(9).digest;
  options_.directory = folder_;
  ASSERT_EQ(train(5).status, PACELINE_OK);
  ASSERT_EQ(steps().at(0), 5u) << "the end of a job is saved too";
  resume_from_newest();
  const TrainerResult resumed = train(9);
  EXPECT_EQ(resumed.status, PACELINE_OK);
  EXPECT_EQ(resumed.digest, expected);
}

TEST_F(CheckpointJobTest, NewestIsBroken_TheOneBeforeGivesTheSameBits) {
  const uint64_t expected = train(9).digest;
  std::filesystem::remove_all(folder_);
  std::filesystem::create_directory(folder_);
  ASSERT_EQ(train(5).status, PACELINE_OK);
  resume_from_newest();
  std::fstream file(options_.resume_from, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-100, std::ios::end);
  file << "rotten";
  file.close();
  EXPECT_EQ(train(9).digest, expected);
}

TEST_F(CheckpointJobTest, OtherState_IsNamed) {
  ASSERT_EQ(train(4).status, PACELINE_OK);
  resume_from_newest();
  EXPECT_NE(refusal("weights", 1).find("'parameters0', here it is 'weights'"), std::string::npos);
  EXPECT_NE(refusal("parameters0", 1).find("'parameters0' has 160012 bytes, here it has 1"),
            std::string::npos);
  trainer_.seed = 43;
  EXPECT_NE(refusal("parameters0", 160012).find("its seed is 42, this run's 43"),
            std::string::npos);
}

TEST_F(CheckpointJobTest, OtherMicroBatches_AreRefused) {
  ASSERT_EQ(train(4).status, PACELINE_OK);
  resume_from_newest();
  trainer_.steps = 6;
  const std::unique_ptr<Job> job = open(4);
  EXPECT_EQ(testing::train(*job, trainer_).status, PACELINE_EINVAL);
}

// A directory that cannot be written: no root test would notice missing permission.
TEST_F(CheckpointJobTest, DiskRefuses_TrainingGoesOnToTheSameBits) {
  const uint64_t expected = train(6).digest;
  options_.directory = "/proc/nothing";
  ::testing::internal::CaptureStderr();
  const TrainerResult result = train(6);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(result.status, PACELINE_OK);
  EXPECT_EQ(result.digest, expected);
  EXPECT_NE(said.find("no checkpoint of step"), std::string::npos);
}

TEST(CheckpointInterval, GrowsWithTheRootOfTheCost) {
  const auto interval = [](int64_t cost_ms) {
    return checkpoint_interval(Duration::milliseconds(cost_ms), Duration()).in_seconds();
  };
  EXPECT_NEAR(interval(100), 53.7, 0.1);  // sqrt(2 * 0.1 s * 14400 s)
  EXPECT_NEAR(interval(400) / interval(100), 2.0, 0.01);
  EXPECT_EQ(interval(0), 10.0);
  EXPECT_NEAR(checkpoint_interval(Duration::seconds(60), {}).in_seconds(), 1314.5, 0.1)
      << "sqrt(2 * 60 s * 14400 s)";
}

}  // namespace
}  // namespace paceline::worker
