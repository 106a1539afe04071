// Goal: the backward pass is the derivative of the forward pass, and nothing but its arguments
// decides its bits. Method: central finite differences of the loss, for every tensor, along its
// whole gradient and along single elements.
#include "gpt/model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "gpt/adam.h"
#include "gpt/corpus.h"

namespace gpt {
namespace {

constexpr ModelConfig kSmall{.layers = 2, .width = 16, .heads = 2, .context = 16};
constexpr size_t kSequences = 3;

Batch random_batch(const ModelConfig& config, size_t sequences) {
  std::mt19937_64 generator(5);
  Batch batch;
  for (size_t i = 0; i < sequences * config.context; ++i) {
    // Few different bytes, so that some occur twice and their embedding gradients add up.
    batch.inputs.push_back(static_cast<uint8_t>('a' + generator() % 12));
    batch.targets.push_back(static_cast<uint8_t>('a' + generator() % 12));
  }
  return batch;
}

// Far from the initial values: there many gradients are near 0 and a wrong one would pass unseen.
std::vector<float> random_parameters(const Layout& layout) {
  std::vector<float> parameters = layout.initial_parameters(3);
  std::mt19937_64 generator(4);
  for (float& parameter : parameters) {
    parameter += 0.4F * (static_cast<float>(generator() % 2001) / 1000.0F - 1.0F);
  }
  return parameters;
}

class GradientTest : public testing::Test {
 protected:
  GradientTest() {
    use_one_thread();
    model_.forward(parameters_, batch_);
    model_.backward(parameters_, batch_, gradient_);
  }

  // (loss(p + h d) - loss(p - h d)) / 2h for the direction d, given for the elements from `offset`
  // on.
  double slope_along(size_t offset, const std::vector<double>& direction, double h) {
    const auto loss_at = [&](double distance) {
      std::vector<float> moved = parameters_;
      for (size_t i = 0; i < direction.size(); ++i) {
        moved[offset + i] += static_cast<float>(distance * direction[i]);
      }
      return model_.forward(moved, batch_);
    };
    return (loss_at(h) - loss_at(-h)) / (2.0 * h);
  }

  Model model_{kSmall, kSequences};
  Batch batch_ = random_batch(kSmall, kSequences);
  std::vector<float> parameters_ = random_parameters(model_.layout());
  std::vector<float> gradient_ = std::vector<float>(parameters_.size());
};

TEST_F(GradientTest, EveryTensor_AlongItsGradient_MatchesFiniteDifference) {
  constexpr double kStep = 4e-3;
  constexpr double kRelativeTolerance = 2e-3;
  for (const Tensor& tensor : model_.layout().tensors()) {
    const std::span<const float> gradient = view(std::span<const float>(gradient_), tensor);
    const double norm =
        std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0));
    ASSERT_GT(norm, 1e-4) << tensor.name << ": too flat to tell a wrong gradient";
    std::vector<double> direction(gradient.begin(), gradient.end());
    for (double& element : direction) element /= norm;
    // Along its own unit vector the slope is the norm of the gradient.
    EXPECT_NEAR(slope_along(tensor.offset, direction, kStep), norm, kRelativeTolerance * norm)
        << tensor.name;
  }
}

TEST_F(GradientTest, EveryTensor_SingleElements_MatchFiniteDifference) {
  constexpr double kStep = 1e-2;
  constexpr size_t kPicks = 12;
  std::mt19937_64 generator(6);
  for (const Tensor& tensor : model_.layout().tensors()) {
    const std::span<const float> gradient = view(std::span<const float>(gradient_), tensor);
    double largest = 0.0;
    for (const float element : gradient) {
      largest = std::max(largest, static_cast<double>(std::abs(element)));
    }
    for (size_t pick = 0; pick < kPicks; ++pick) {
      const size_t i = generator() % tensor.count();
      const double expected = static_cast<double>(gradient[i]);
      const double tolerance = 1e-2 * std::abs(expected) + 2e-3 * largest;
      EXPECT_NEAR(slope_along(tensor.offset + i, {1.0}, kStep), expected, tolerance)
          << tensor.name << " element " << i;
    }
  }
}

TEST_F(GradientTest, SameBatch_FreshModelAndMemory_GivesTheSameBits) {
  Model other(kSmall, kSequences + 2);
  // Another alignment of every array, and a gradient that must be overwritten.
  std::vector<float> shifted_parameters(parameters_.size() + 1);
  std::copy(parameters_.begin(), parameters_.end(), shifted_parameters.begin() + 1);
  const auto parameters = std::span<const float>(shifted_parameters).subspan(1);
  std::vector<float> shifted_gradient(gradient_.size() + 3, std::nanf(""));
  const auto gradient = std::span<float>(shifted_gradient).subspan(3);
  other.forward(parameters, random_batch(kSmall, kSequences + 2));  // marks the scratch memory
  other.forward(parameters, batch_);
  other.backward(parameters, batch_, gradient);
  EXPECT_TRUE(std::equal(gradient_.begin(), gradient_.end(), gradient.begin()));
}

// On a text with a period of 7 bytes, the loss of a model that learns goes to 0.
TEST(Training, PeriodicText_LossFallsFarBelowThatOfByteFrequencies) {
  constexpr size_t kSteps = 120;
  std::string text;
  for (size_t i = 0; i < 400; ++i) text += "abacabd";
  const Corpus corpus(text, kSmall.context);
  Model model(kSmall, kSequences);
  std::vector<float> parameters = model.layout().initial_parameters(1);
  std::vector<float> gradient(parameters.size());
  Adam adam(parameters.size(), {});
  double first_loss = 0.0;
  double last_loss = 0.0;
  for (size_t step = 0; step < kSteps; ++step) {
    const Batch batch = corpus.training_batch(step, kSequences);
    last_loss = model.forward(parameters, batch);
    if (step == 0) first_loss = last_loss;
    model.backward(parameters, batch, gradient);
    adam.apply({.step = step, .learning_rate = 5e-3, .gradient_sum = gradient}, parameters);
  }
  EXPECT_NEAR(first_loss, std::log(static_cast<double>(kVocabulary)), 0.5);
  // The bytes' frequencies alone give 1.15 nats.
  EXPECT_LT(last_loss, 0.5);
  EXPECT_LT(model.forward(parameters, corpus.held_out_batch(kSequences)), 0.5);
}

}  // namespace
}  // namespace gpt
