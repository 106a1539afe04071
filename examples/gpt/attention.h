// Causal multi-head self-attention: each position mixes the values of the positions up to its own.
//
// Rows are positions, `context` of them per sequence. Query, key and value of all heads stand side
// by side in one row of 3 * width elements: first all queries, then all keys, then all values; a
// head is a block of columns in each third.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "gpt/layout.h"
#include "gpt/matrix.h"

namespace gpt {

class Attention final {
 public:
  explicit Attention(const ModelConfig& config);

  // Elements of the probabilities of one sequence: a [context x context] matrix per head.
  size_t probability_count() const { return heads_ * context_ * context_; }

  // `probabilities` holds probability_count() elements per sequence and is kept for the backward
  // pass.
  void forward(ConstMatrix query_key_value, std::span<float> probabilities, Matrix output) const;

  // Overwrites query_key_value_gradient.
  struct Backward {
    ConstMatrix output_gradient;
    ConstMatrix query_key_value;
    std::span<const float> probabilities;
    Matrix query_key_value_gradient;
  };
  void backward(const Backward& job);

 private:
  // The block of one head in one sequence of a matrix of all positions; `part` counts the thirds of
  // the row.
  struct Place {
    size_t sequence;
    size_t head;
    size_t part;
  };
  ConstMatrix block(ConstMatrix matrix, const Place& place) const;
  Matrix block(Matrix matrix, const Place& place) const;

  size_t heads_;
  size_t width_;
  size_t context_;
  float scale_;                         // 1 / sqrt(columns of a head)
  std::vector<float> scores_gradient_;  // of one head
};

}  // namespace gpt
