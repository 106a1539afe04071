// Where each parameter lives: the whole model is one contiguous float array, and this is its table
// of contents.
//
// One array means that state, gradients and optimizer moments are each registered, reduced and
// updated as plain memory. Tensors appear in forward order, so a range of the array from the end is
// complete first in the backward pass; the gradient buckets are such ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpt/matrix.h"

namespace gpt {

inline constexpr size_t kVocabulary = 256;  // every byte is a token

struct ModelConfig {
  size_t layers = 4;
  size_t width = 128;
  size_t heads = 4;
  size_t context = 64;

  // Empty if a model can be built with these numbers; else what is wrong with them.
  std::string problem() const;
};

// A matrix [rows x columns] in the parameter array; vectors have one row.
struct Tensor {
  std::string name{};
  size_t offset = 0;
  size_t rows = 1;
  size_t columns = 0;
  float initial_mean = 0.0F;
  float initial_deviation = 0.0F;

  size_t count() const { return rows * columns; }
};

struct NormTensors {
  Tensor gain;
  Tensor bias;
};

// output = input * weight + bias
struct LinearTensors {
  Tensor weight;  // [input x output]
  Tensor bias;
};

struct BlockTensors {
  NormTensors attention_norm;
  LinearTensors query_key_value;
  LinearTensors attention_output;
  NormTensors mlp_norm;
  LinearTensors mlp_up;
  LinearTensors mlp_down;
};

// A contiguous range of the parameter array whose gradients are reduced together.
struct BucketRange {
  std::string name;
  size_t offset = 0;
  std::vector<size_t> element_counts{};  // of its tensors, in order

  size_t count() const;
};

class Layout final {
 public:
  explicit Layout(const ModelConfig& config);

  const Tensor& token_embedding() const { return token_embedding_; }
  const Tensor& position_embedding() const { return position_embedding_; }
  const std::vector<BlockTensors>& blocks() const { return blocks_; }
  const NormTensors& final_norm() const { return final_norm_; }
  const Tensor& head() const { return head_; }

  // All tensors in the order of the array, without gaps.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  size_t parameter_count() const { return parameter_count_; }

  // At most `bucket_count` ranges of similar size that cover the array, in backward order: the last
  // tensors first.
  std::vector<BucketRange> buckets(size_t bucket_count) const;

  // The initial parameters: a function of `seed` alone, the same on every machine.
  std::vector<float> initial_parameters(uint64_t seed) const;

 private:
  Tensor append(Tensor tensor);
  NormTensors append_norm(const std::string& name, size_t width);
  struct LinearShape {
    size_t inputs;
    size_t outputs;
    float output_scale = 1.0F;  // deviation of the output per deviation of the input, at the start
  };
  LinearTensors append_linear(const std::string& name, const LinearShape& shape);
  BlockTensors append_block(const std::string& prefix, const ModelConfig& config);

  size_t parameter_count_ = 0;
  std::vector<Tensor> tensors_;
  Tensor token_embedding_;
  Tensor position_embedding_;
  std::vector<BlockTensors> blocks_;
  NormTensors final_norm_;
  Tensor head_;
};

std::span<const float> view(std::span<const float> parameters, const Tensor& tensor);
std::span<float> view(std::span<float> parameters, const Tensor& tensor);
ConstMatrix matrix_view(std::span<const float> parameters, const Tensor& tensor);
Matrix matrix_view(std::span<float> parameters, const Tensor& tensor);

}  // namespace gpt
