// Goal: a class of jobs answers with a quantile of its own run times once there are enough, and
// forgets old ones.
#include "core/sched/run_times.h"

#include <gtest/gtest.h>

namespace paceline::sched {
namespace {

constexpr int64_t kOneGpu = 1000;

TEST(RunTimes, FewJobs_SayNothingThenTheSizeOfAllQueuesThenTheOwn) {
  RunTimes times;
  for (int64_t i = 1; i <= 7; ++i) times.add(QueueId(1), kOneGpu, Duration::seconds(i));
  EXPECT_FALSE(times.expected(QueueId(1), kOneGpu, 500).has_value());
  times.add(QueueId(2), kOneGpu, Duration::seconds(100));
  EXPECT_EQ(times.expected(QueueId(1), kOneGpu, 500), Duration::seconds(4));
  EXPECT_EQ(times.expected(QueueId(1), kOneGpu, 1000), Duration::seconds(100));
  times.add(QueueId(1), kOneGpu, Duration::seconds(8));
  EXPECT_EQ(times.expected(QueueId(1), kOneGpu, 1000), Duration::seconds(8));
  EXPECT_FALSE(times.expected(QueueId(1), 8 * kOneGpu, 500).has_value());
}

TEST(RunTimes, Sizes_AreAlikeWithinAPowerOfTwo) {
  RunTimes times;
  for (size_t i = 0; i < RunTimes::kEnough; ++i)
    times.add(QueueId(1), 5 * kOneGpu, Duration::seconds(9));
  for (const int64_t gpus : {5, 6, 8})
    EXPECT_TRUE(times.expected(QueueId(1), gpus * kOneGpu, 500).has_value());
  for (const int64_t gpus : {0, 1, 4, 9})
    EXPECT_FALSE(times.expected(QueueId(1), gpus * kOneGpu, 500).has_value());
}

TEST(RunTimes, OldOnes_AreForgotten) {
  RunTimes times;
  for (size_t i = 0; i < RunTimes::kKept; ++i) times.add(QueueId(1), kOneGpu, Duration::seconds(1));
  for (size_t i = 0; i < RunTimes::kKept; ++i) times.add(QueueId(1), kOneGpu, Duration::seconds(2));
  EXPECT_EQ(times.expected(QueueId(1), kOneGpu, 1), Duration::seconds(2));
}

}  // namespace
}  // namespace paceline::sched
