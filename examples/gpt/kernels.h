// The arithmetic of the model that is not a matrix product: normalisation, activation, softmax and
// loss, each with its derivative.
//
// Every kernel gives the same bits on any x86-64 processor: sums run over a fixed number of lanes
// whatever the vector width, and the file is compiled without contraction to fused multiply-adds.
// Row lengths are multiples of kLanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpt/matrix.h"

namespace gpt {

inline constexpr size_t kLanes = 8;

// Every row of `result` becomes `bias`.
void fill_rows(std::span<const float> bias, Matrix result);

// sums[j] = sum over the rows of column j.
void sum_columns(ConstMatrix matrix, std::span<float> sums);

// target += source, element by element.
void add(std::span<const float> source, std::span<float> target);

struct LayerNormForward {
  ConstMatrix input;
  std::span<const float> gain;
  std::span<const float> bias;
  Matrix normalised;                   // kept for the backward pass
  std::span<float> inverse_deviation;  // one per row, kept for the backward pass
  Matrix output;                       // normalised * gain + bias
};
void layer_norm_forward(const LayerNormForward& job);

struct LayerNormBackward {
  ConstMatrix output_gradient;
  ConstMatrix normalised;
  std::span<const float> inverse_deviation;
  std::span<const float> gain;
  std::span<float> gain_gradient;  // overwritten
  std::span<float> bias_gradient;  // overwritten
  Matrix input_gradient;           // added to: the residual path has put its part there
};
void layer_norm_backward(const LayerNormBackward& job);

// values = gelu(x) and slopes = gelu'(x) for x = slopes on entry, with the tanh form of GELU.
void gelu_forward(std::span<float> slopes, std::span<float> values);

// gradient *= slopes, element by element.
void gelu_backward(std::span<const float> slopes, std::span<float> gradient);

// Row i becomes the softmax of its elements 0..i; the elements after i become 0.
void causal_softmax_forward(Matrix scores);

// `gradient` on entry is that of the probabilities, on return that of the scores.
void causal_softmax_backward(ConstMatrix probabilities, Matrix gradient);

// Mean cross-entropy in nats. Each row of `logits` becomes the gradient of that mean.
double cross_entropy(std::span<const uint8_t> targets, Matrix logits);

}  // namespace gpt
