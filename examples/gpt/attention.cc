#include "gpt/attention.h"

#include <cmath>

#include "gpt/kernels.h"

namespace gpt {
namespace {

constexpr size_t kQuery = 0;
constexpr size_t kKey = 1;
constexpr size_t kValue = 2;

}  // namespace

Attention::Attention(const ModelConfig& config)
    : heads_(config.heads),
      width_(config.width),
      context_(config.context),
      scale_(1.0F / std::sqrt(static_cast<float>(config.width / config.heads))),
      scores_gradient_(config.context * config.context) {}

Matrix Attention::block(Matrix matrix, const Place& place) const {
  const size_t head_width = width_ / heads_;
  const size_t column = place.part * width_ + place.head * head_width;
  return {matrix.data + place.sequence * context_ * matrix.stride + column, context_, head_width,
          matrix.stride};
}

ConstMatrix Attention::block(ConstMatrix matrix, const Place& place) const {
  const size_t head_width = width_ / heads_;
  const size_t column = place.part * width_ + place.head * head_width;
  return {matrix.data + place.sequence * context_ * matrix.stride + column, context_, head_width,
          matrix.stride};
}

void Attention::forward(ConstMatrix query_key_value, std::span<float> probabilities,
                        Matrix output) const {
  const size_t sequences = output.rows / context_;
  float* next_probabilities = probabilities.data();
  for (size_t sequence = 0; sequence < sequences; ++sequence) {
    for (size_t head = 0; head < heads_; ++head) {
      const Matrix scores{next_probabilities, context_, context_, context_};
      next_probabilities += context_ * context_;
      const ConstMatrix query = block(query_key_value, {sequence, head, kQuery});
      const ConstMatrix key = block(query_key_value, {sequence, head, kKey});
      const ConstMatrix value = block(query_key_value, {sequence, head, kValue});
      multiply({.left = query, .right = transposed(key), .result = scores, .scale = scale_});
      causal_softmax_forward(scores);
      multiply({.left = scores, .right = value, .result = block(output, {sequence, head, 0})});
    }
  }
}

void Attention::backward(const Backward& job) {
  const size_t sequences = job.output_gradient.rows / context_;
  const Matrix scores_gradient{scores_gradient_.data(), context_, context_, context_};
  const float* next_probabilities = job.probabilities.data();
  for (size_t sequence = 0; sequence < sequences; ++sequence) {
    for (size_t head = 0; head < heads_; ++head) {
      const ConstMatrix probabilities{next_probabilities, context_, context_, context_};
      next_probabilities += context_ * context_;
      const ConstMatrix query = block(job.query_key_value, {sequence, head, kQuery});
      const ConstMatrix key = block(job.query_key_value, {sequence, head, kKey});
      const ConstMatrix value = block(job.query_key_value, {sequence, head, kValue});
      const ConstMatrix output_gradient = block(job.output_gradient, {sequence, head, 0});
      multiply({.left = transposed(probabilities),
                .right = output_gradient,
                .result = block(job.query_key_value_gradient, {sequence, head, kValue})});
      multiply({.left = output_gradient, .right = transposed(value), .result = scores_gradient});
      causal_softmax_backward(probabilities, scores_gradient);
      multiply({.left = scores_gradient,
                .right = key,
                .result = block(job.query_key_value_gradient, {sequence, head, kQuery}),
                .scale = scale_});
      multiply({.left = transposed(scores_gradient),
                .right = query,
                .result = block(job.query_key_value_gradient, {sequence, head, kKey}),
                .scale = scale_});
    }
  }
}

}  // namespace gpt
