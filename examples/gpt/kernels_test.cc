// Goal: the approximations are close to the functions they stand for, at the ends of their range
// too. Method: compare with the standard library in double.
#include "gpt/kernels.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace gpt {
namespace {

double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(Gelu, WholeRange_ValueAndSlope_MatchTheTanhForm) {
  std::vector<float> inputs;
  for (float x = -30.0F; x <= 30.0F; x += 0.0625F) inputs.push_back(x);
  std::vector<float> slopes = inputs;
  std::vector<float> values(inputs.size());
  gelu_forward(slopes, values);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const double x = static_cast<double>(inputs[i]);
    const double slope = (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5;
    EXPECT_NEAR(static_cast<double>(values[i]), gelu(x), 1e-6 * (1.0 + std::abs(x))) << x;
    EXPECT_NEAR(static_cast<double>(slopes[i]), slope, 2e-6) << x;
  }
}

TEST(CausalSoftmax, Rows_SumToOneOverThePastAlone) {
  const size_t size = 24;
  std::vector<float> scores(size * size);
  for (size_t i = 0; i < scores.size(); ++i) scores[i] = 50.0F * std::sin(static_cast<float>(i));
  const std::vector<float> input = scores;
  causal_softmax_forward({scores.data(), size, size, size});
  for (size_t row = 0; row < size; ++row) {
    double normaliser = 0.0;
    for (size_t j = 0; j <= row; ++j) {
      normaliser += std::exp(static_cast<double>(input[row * size + j]));
    }
    for (size_t j = 0; j < size; ++j) {
      const double expected =
          j > row ? 0.0 : std::exp(static_cast<double>(input[row * size + j])) / normaliser;
      EXPECT_NEAR(static_cast<double>(scores[row * size + j]), expected, 1e-5);
    }
  }
}

TEST(CrossEntropy, EqualLogits_LossIsLogOfTheirNumber) {
  std::vector<float> logits(2 * 16, 3.0F);
  const std::vector<uint8_t> targets = {0, 15};
  EXPECT_NEAR(cross_entropy(targets, {logits.data(), 2, 16, 16}), std::log(16.0), 1e-6);
  EXPECT_NEAR(logits[0], 0.5F * (1.0F / 16.0F - 1.0F), 1e-6F);
  EXPECT_NEAR(logits[1], 0.5F / 16.0F, 1e-6F);
}

TEST(CrossEntropy, HugeLogits_StayFinite) {
  std::vector<float> logits(16, -1e4F);
  logits[3] = 1e4F;
  EXPECT_NEAR(cross_entropy(std::vector<uint8_t>{4}, {logits.data(), 1, 16, 16}), 2e4, 1.0);
  EXPECT_FLOAT_EQ(logits[3], 1.0F);
  EXPECT_FLOAT_EQ(logits[4], -1.0F);
}

TEST(CrossEntropy, NanLogit_IsNotHidden) {
  std::vector<float> logits(16, 0.0F);
  logits[9] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(cross_entropy(std::vector<uint8_t>{4}, {logits.data(), 1, 16, 16})));
}

}  // namespace
}  // namespace gpt
