// Goal: Adam follows the published rule and its schedule. Method: a scalar reference in double.
#include "gpt/adam.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace gpt {
namespace {

// Algorithm 1 of Kingma and Ba (2015), for one parameter.
struct ReferenceAdam {
  double parameter;
  double first = 0.0;
  double second = 0.0;

  void apply(int step_from_one, double gradient, double learning_rate) {
    first = 0.9 * first + 0.1 * gradient;
    second = 0.98 * second + 0.02 * gradient * gradient;
    const double first_hat = first / (1.0 - std::pow(0.9, step_from_one));
    const double second_hat = second / (1.0 - std::pow(0.98, step_from_one));
    parameter -= learning_rate * first_hat / (std::sqrt(second_hat) + 1e-8);
  }
};

TEST(Adam, ManySteps_FollowTheScalarReference) {
  constexpr size_t kCount = 37;  // not a multiple of any vector width
  constexpr double kRate = 0.01;
  Adam adam(kCount, {});
  std::vector<float> parameters(kCount, 1.0F);
  std::vector<ReferenceAdam> reference(kCount, {.parameter = 1.0});
  for (uint64_t step = 0; step < 50; ++step) {
    std::vector<float> sums(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      sums[i] = 4.0F * std::sin(static_cast<float>((i + 1) * (step + 1)));
      reference[i].apply(static_cast<int>(step) + 1, static_cast<double>(sums[i]) / 4.0, kRate);
    }
    adam.apply({.step = step, .learning_rate = kRate, .gradient_sum = sums, .scale = 0.25F},
               parameters);
  }
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_NEAR(static_cast<double>(parameters[i]), reference[i].parameter, 1e-5) << i;
  }
}

TEST(Adam, UpdateInRanges_GivesTheBitsOfOneUpdate) {
  constexpr size_t kCount = 101;
  Adam whole(kCount, {});
  Adam ranges(kCount, {});
  std::vector<float> whole_parameters(kCount, 0.5F);
  std::vector<float> range_parameters(kCount, 0.5F);
  std::vector<float> sums(kCount);
  for (size_t i = 0; i < kCount; ++i) sums[i] = std::cos(static_cast<float>(i));
  const std::span<const float> all(sums);
  whole.apply({.learning_rate = 0.1, .gradient_sum = all}, whole_parameters);
  for (const size_t offset : {size_t{50}, size_t{0}}) {
    const size_t count = offset == 0 ? 50 : kCount - 50;
    ranges.apply(
        {.learning_rate = 0.1, .offset = offset, .gradient_sum = all.subspan(offset, count)},
        range_parameters);
  }
  EXPECT_EQ(whole_parameters, range_parameters);
  EXPECT_TRUE(std::ranges::equal(whole.second_moments(), ranges.second_moments()));
}

TEST(LearningRateSchedule, OverARun_RisesThenFallsToTheFloor) {
  const LearningRateSchedule schedule{
      .peak = 0.01, .warm_up_steps = 10, .total_steps = 110, .floor = 0.1};
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.001);
  EXPECT_DOUBLE_EQ(schedule.at(9), 0.01);
  EXPECT_DOUBLE_EQ(schedule.at(10), 0.01);
  EXPECT_DOUBLE_EQ(schedule.at(60), 0.0055);
  EXPECT_DOUBLE_EQ(schedule.at(110), 0.001);
  EXPECT_DOUBLE_EQ(schedule.at(1000), 0.001);
}

TEST(LearningRateSchedule, RunShorterThanItsWarmUp_NeverExceedsThePeak) {
  const LearningRateSchedule schedule{.peak = 0.01, .warm_up_steps = 10, .total_steps = 5};
  EXPECT_DOUBLE_EQ(schedule.at(4), 0.005);
  EXPECT_DOUBLE_EQ(schedule.at(12), 0.01);
}

}  // namespace
}  // namespace gpt
