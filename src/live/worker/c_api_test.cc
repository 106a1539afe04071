// Goal: the C ABI keeps its order of calls, and a job of one process works without an agent.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <string>
#include <vector>

#include "paceline/paceline.h"

namespace {

struct OneBucketJob {
  OneBucketJob() {
    const paceline_options options{.seed = 1, .micro_batches = 2};
    EXPECT_EQ(paceline_init(&options, &job), PACELINE_OK);
    const size_t tensors[] = {2, 1};
    EXPECT_EQ(paceline_register_bucket(job, "g", tensors, 2, PACELINE_F32, &bucket), PACELINE_OK);
    EXPECT_EQ(paceline_register_state(job, "w", weights.data(), sizeof(float) * weights.size(),
                                      PACELINE_REPLICATED),
              PACELINE_OK);
  }
  ~OneBucketJob() { EXPECT_EQ(paceline_finalize(job), PACELINE_OK); }

  paceline_job* job = nullptr;
  uint32_t bucket = 0;
  std::vector<float> weights = {1, 2, 3};
};

TEST(CApi, OneProcess_SumsItsMicroBatches) {
  OneBucketJob one;
  const float gradient[] = {0.5f, -0.25f, NAN};
  for (uint64_t expected_step = 0; expected_step < 3; ++expected_step) {
    paceline_step step{};
    ASSERT_EQ(paceline_begin_step(one.job, &step), PACELINE_OK);
    EXPECT_EQ(step.step, expected_step);
    EXPECT_EQ(step.micro_batches, 2u);
    do {
      paceline_micro_batch m{};
      while (paceline_next_micro_batch(one.job, &m) == PACELINE_OK)
        ASSERT_EQ(paceline_accumulate(one.job, one.bucket, gradient), PACELINE_OK);
    } while (paceline_finish_step(one.job) == PACELINE_MORE);
    const float* sum = paceline_sum(one.job, one.bucket);
    ASSERT_NE(sum, nullptr);
    EXPECT_EQ(sum[0], 1.0f);
    EXPECT_EQ(sum[1], -0.5f);
    EXPECT_TRUE(std::isnan(sum[2]));
  }
}

TEST(CApi, CallsOutOfOrder_AreRefusedWithAText) {
  OneBucketJob one;
  paceline_step step{};
  paceline_micro_batch m{};
  const float gradient[3] = {};
  EXPECT_EQ(paceline_next_micro_batch(one.job, &m), PACELINE_EINVAL);
  EXPECT_EQ(paceline_accumulate(one.job, 0, gradient), PACELINE_EINVAL);
  EXPECT_EQ(paceline_finish_step(one.job), PACELINE_EINVAL);
  EXPECT_EQ(paceline_sum(one.job, 0), nullptr);
  ASSERT_EQ(paceline_begin_step(one.job, &step), PACELINE_OK);
  EXPECT_EQ(paceline_begin_step(one.job, &step), PACELINE_EINVAL);
  const size_t tensors[] = {1};
  uint32_t bucket = 0;
  EXPECT_EQ(paceline_register_bucket(one.job, "h", tensors, 1, PACELINE_F32, &bucket),
            PACELINE_EINVAL);
  EXPECT_EQ(paceline_accumulate(one.job, 0, gradient), PACELINE_EINVAL);  // nothing is begun
  ASSERT_EQ(paceline_next_micro_batch(one.job, &m), PACELINE_OK);
  EXPECT_EQ(paceline_next_micro_batch(one.job, &m), PACELINE_EINVAL);
  EXPECT_EQ(paceline_finish_step(one.job), PACELINE_EINVAL);
  EXPECT_EQ(paceline_accumulate(one.job, 1, gradient), PACELINE_EINVAL);
  EXPECT_EQ(paceline_accumulate(one.job, 0, gradient), PACELINE_OK);
  EXPECT_EQ(paceline_accumulate(one.job, 0, gradient), PACELINE_EINVAL);
  EXPECT_NE(std::string(paceline_last_error(one.job)), "");
}

TEST(CApi, ForkedChild_HasAnInertCopy) {
  OneBucketJob one;
  const pid_t child = ::fork();
  if (child == 0) {
    paceline_step step{};
    const bool is_inert = paceline_begin_step(one.job, &step) == PACELINE_EINVAL &&
                          paceline_finalize(one.job) == PACELINE_EINVAL;
    ::_exit(is_inert ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
