// A byte-level decoder-only transformer, forward and backward by hand.
//
//     x = token embedding + position embedding
//     for each block:  x += attention(norm(x));  x += mlp(norm(x))
//     logits = norm(x) * head
//
// The loss is the mean cross-entropy of the next byte, in nats per byte. The gradient of a batch
// has the same bits each time it is computed from the same parameters. A model object owns scratch
// memory only: parameters and gradients are the caller's flat arrays, laid out by Layout. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpt/attention.h"
#include "gpt/layout.h"
#include "gpt/matrix.h"

namespace gpt {

// Whole sequences of `context` bytes, one after the other; targets[i] is the byte that follows
// inputs[i].
struct Batch {
  std::vector<uint8_t> inputs;
  std::vector<uint8_t> targets;
};

class Model final {
 public:
  // REQUIRES: config.problem() is empty; max_sequences > 0.
  Model(const ModelConfig& config, size_t max_sequences);

  const Layout& layout() const { return layout_; }

  // The loss of `batch`, of at most max_sequences sequences.
  double forward(std::span<const float> parameters, const Batch& batch);

  // Writes the gradient of the loss of the last forward, which must have had the same arguments.
  void backward(std::span<const float> parameters, const Batch& batch, std::span<float> gradient);

 private:
  struct Norm {
    std::vector<float> normalised;
    std::vector<float> inverse_deviation;
    std::vector<float> output;
  };
  // What the forward pass of one block leaves for its backward pass.
  struct Block {
    Norm attention_norm;
    std::vector<float> query_key_value;
    std::vector<float> probabilities;
    std::vector<float> attention;
    Norm mlp_norm;
    std::vector<float> gelu_slope;
    std::vector<float> hidden;
  };

  Norm make_norm() const;
  Matrix rows_of(std::vector<float>& storage, size_t columns) const;
  void embed(std::span<const float> parameters, const Batch& batch);
  void embed_backward(const Batch& batch, std::span<float> gradient);
  void norm_forward(std::span<const float> parameters, const NormTensors& tensors, Norm& norm);
  void norm_backward(std::span<const float> parameters, const NormTensors& tensors, Norm& norm,
                     std::span<float> gradient);
  void block_forward(std::span<const float> parameters, const BlockTensors& tensors, Block& block);
  void attention_backward(std::span<const float> parameters, const BlockTensors& tensors,
                          Block& block, std::span<float> gradient);
  void mlp_backward(std::span<const float> parameters, const BlockTensors& tensors, Block& block,
                    std::span<float> gradient);

  ModelConfig config_;
  Layout layout_;
  Attention attention_;
  size_t max_positions_;
  size_t positions_ = 0;  // of the batch in hand: sequences * context

  std::vector<float> residual_;  // x; block outputs are added to it
  std::vector<Block> blocks_;
  Norm final_norm_;
  std::vector<float> logits_;  // after forward: the gradient of the loss by the logits

  std::vector<float> residual_gradient_;
  std::vector<float> norm_output_gradient_;
  std::vector<float> attention_gradient_;
  std::vector<float> query_key_value_gradient_;
  std::vector<float> hidden_gradient_;
};

}  // namespace gpt
