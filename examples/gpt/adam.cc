#include "gpt/adam.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>

#include "gpt/vectorise.h"

namespace gpt {
namespace {

struct ElementRule {
  float first_decay;
  float second_decay;
  float scale;
  float step_size;            // learning rate with the bias of the first moment taken out
  float inverse_second_bias;  // takes the bias out of the second moment
  float epsilon;
};

GPT_VECTORISE void update_elements(const ElementRule& rule, std::span<const float> gradient_sum,
                                   float* __restrict first, float* __restrict second,
                                   float* __restrict parameters) {
  const float* const sum = gradient_sum.data();
  const auto [first_decay, second_decay, scale, step_size, inverse_second_bias, epsilon] = rule;
  const size_t count = gradient_sum.size();
  for (size_t i = 0; i < count; ++i) {
    const float gradient = sum[i] * scale;
    first[i] = first_decay * first[i] + (1.0F - first_decay) * gradient;
    second[i] = second_decay * second[i] + (1.0F - second_decay) * gradient * gradient;
    const float deviation = std::sqrt(second[i] * inverse_second_bias) + epsilon;
    parameters[i] -= step_size * first[i] / deviation;
  }
}

}  // namespace

double LearningRateSchedule::at(uint64_t step) const {
  if (step < warm_up_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warm_up_steps);
  }
  if (total_steps <= warm_up_steps) return peak;
  const double done =
      static_cast<double>(step - warm_up_steps) / static_cast<double>(total_steps - warm_up_steps);
  const double cosine = std::cos(std::numbers::pi * std::min(done, 1.0));
  return peak * (floor + (1.0 - floor) * 0.5 * (1.0 + cosine));
}

Adam::Adam(size_t parameter_count, const Options& options)
    : options_(options), first_moments_(parameter_count), second_moments_(parameter_count) {}

void Adam::apply(const Update& update, std::span<float> parameters) {
  const size_t end = update.offset + update.gradient_sum.size();
  assert(end <= parameters.size() && parameters.size() == first_moments_.size());
  static_cast<void>(end);
  const double updates = static_cast<double>(update.step + 1);
  const double first_bias = 1.0 - std::pow(static_cast<double>(options_.first_decay), updates);
  const double second_bias = 1.0 - std::pow(static_cast<double>(options_.second_decay), updates);
  const ElementRule rule{
      .first_decay = options_.first_decay,
      .second_decay = options_.second_decay,
      .scale = update.scale,
      .step_size = static_cast<float>(update.learning_rate / first_bias),
      .inverse_second_bias = static_cast<float>(1.0 / second_bias),
      .epsilon = options_.epsilon,
  };
  update_elements(rule, update.gradient_sum, first_moments_.data() + update.offset,
                  second_moments_.data() + update.offset, parameters.data() + update.offset);
}

}  // namespace gpt
