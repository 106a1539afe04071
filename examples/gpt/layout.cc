#include "gpt/layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <ranges>

#include "gpt/kernels.h"

namespace gpt {
namespace {

// Measured over the default 300 steps: with embeddings ten times smaller the held-out loss ends 0.1
// nats/byte higher, with three times larger ones 0.06.
constexpr float kTokenDeviation = 0.2F;
constexpr float kPositionDeviation = 0.1F;
constexpr float kHeadDeviation = 0.02F;  // small, so that all bytes start about equally likely
constexpr float kRootOfThree = 1.7320508F;
constexpr float kToUnit = 1.0F / 16777216.0F;  // 2^-24

// Uniform with deviation 1. The distributions of the standard library differ between its
// implementations; its generators do not.
float uniform(std::mt19937_64& generator) {
  const float unit = static_cast<float>(generator() >> 40U) * kToUnit;
  return (2.0F * unit - 1.0F) * kRootOfThree;
}

}  // namespace

std::string ModelConfig::problem() const {
  if (layers == 0 || width == 0 || heads == 0 || context == 0) return "a size is 0";
  if (width % heads != 0) return "width is not a multiple of heads";
  if (width % kLanes != 0) return "width is not a multiple of " + std::to_string(kLanes);
  if (context % kLanes != 0) return "context is not a multiple of " + std::to_string(kLanes);
  return "";
}

size_t BucketRange::count() const {
  return std::accumulate(element_counts.begin(), element_counts.end(), size_t{0});
}

Layout::Layout(const ModelConfig& config) {
  token_embedding_ = append({.name = "embedding.token",
                             .rows = kVocabulary,
                             .columns = config.width,
                             .initial_deviation = kTokenDeviation});
  position_embedding_ = append({.name = "embedding.position",
                                .rows = config.context,
                                .columns = config.width,
                                .initial_deviation = kPositionDeviation});
  for (size_t i = 0; i < config.layers; ++i) {
    blocks_.push_back(append_block("block." + std::to_string(i) + ".", config));
  }
  final_norm_ = append_norm("final_norm", config.width);
  head_ = append({.name = "head.weight",
                  .rows = config.width,
                  .columns = kVocabulary,
                  .initial_deviation = kHeadDeviation});
}

Tensor Layout::append(Tensor tensor) {
  tensor.offset = parameter_count_;
  parameter_count_ += tensor.count();
  tensors_.push_back(tensor);
  return tensor;
}

NormTensors Layout::append_norm(const std::string& name, size_t width) {
  Tensor gain = append({.name = name + ".gain", .columns = width, .initial_mean = 1.0F});
  Tensor bias = append({.name = name + ".bias", .columns = width});
  return {.gain = std::move(gain), .bias = std::move(bias)};
}

LinearTensors Layout::append_linear(const std::string& name, const LinearShape& shape) {
  const float deviation = shape.output_scale / std::sqrt(static_cast<float>(shape.inputs));
  Tensor weight = append({.name = name + ".weight",
                          .rows = shape.inputs,
                          .columns = shape.outputs,
                          .initial_deviation = deviation});
  Tensor bias = append({.name = name + ".bias", .columns = shape.outputs});
  return {.weight = std::move(weight), .bias = std::move(bias)};
}

BlockTensors Layout::append_block(const std::string& prefix, const ModelConfig& config) {
  const size_t width = config.width;
  const size_t hidden = 4 * width;
  // Each block adds two outputs to the residual; scaling them keeps its variance independent of
  // depth.
  const float residual_scale = 1.0F / std::sqrt(2.0F * static_cast<float>(config.layers));
  // In the order of the array, which is that of these statements.
  BlockTensors block;
  block.attention_norm = append_norm(prefix + "attention_norm", width);
  block.query_key_value =
      append_linear(prefix + "query_key_value", {.inputs = width, .outputs = 3 * width});
  block.attention_output =
      append_linear(prefix + "attention_output",
                    {.inputs = width, .outputs = width, .output_scale = residual_scale});
  block.mlp_norm = append_norm(prefix + "mlp_norm", width);
  block.mlp_up = append_linear(prefix + "mlp_up", {.inputs = width, .outputs = hidden});
  block.mlp_down = append_linear(
      prefix + "mlp_down", {.inputs = hidden, .outputs = width, .output_scale = residual_scale});
  return block;
}

std::vector<BucketRange> Layout::buckets(size_t bucket_count) const {
  std::vector<BucketRange> ranges;
  size_t previous_share = 0;
  for (const Tensor& tensor : std::ranges::reverse_view(tensors_)) {
    // A tensor belongs to the share of the array in which its middle lies, counted from the end.
    const size_t middle = parameter_count_ - tensor.offset - tensor.count() / 2 - 1;
    const size_t share = middle * bucket_count / parameter_count_;
    if (ranges.empty() || share != previous_share) {
      ranges.push_back({.name = "gradient." + std::to_string(ranges.size())});
    }
    previous_share = share;
    ranges.back().offset = tensor.offset;
    ranges.back().element_counts.insert(ranges.back().element_counts.begin(), tensor.count());
  }
  return ranges;
}

std::vector<float> Layout::initial_parameters(uint64_t seed) const {
  std::mt19937_64 generator(seed);
  std::vector<float> parameters;
  parameters.reserve(parameter_count_);
  for (const Tensor& tensor : tensors_) {
    for (size_t i = 0; i < tensor.count(); ++i) {
      parameters.push_back(tensor.initial_mean + tensor.initial_deviation * uniform(generator));
    }
  }
  return parameters;
}

std::span<const float> view(std::span<const float> parameters, const Tensor& tensor) {
  return parameters.subspan(tensor.offset, tensor.count());
}

std::span<float> view(std::span<float> parameters, const Tensor& tensor) {
  return parameters.subspan(tensor.offset, tensor.count());
}

ConstMatrix matrix_view(std::span<const float> parameters, const Tensor& tensor) {
  return {view(parameters, tensor).data(), tensor.rows, tensor.columns, tensor.columns};
}

Matrix matrix_view(std::span<float> parameters, const Tensor& tensor) {
  return {view(parameters, tensor).data(), tensor.rows, tensor.columns, tensor.columns};
}

}  // namespace gpt
