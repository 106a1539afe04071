#include "gpt/model.h"

#include <algorithm>
#include <cassert>

#include "gpt/kernels.h"

namespace gpt {
namespace {

constexpr size_t kParts = 3;        // query, key, value
constexpr size_t kHiddenScale = 4;  // MLP columns per model column

// output = input * weight + bias
struct LinearForward {
  ConstMatrix input;
  ConstMatrix weight;
  std::span<const float> bias;
  Matrix output;
};

void linear_forward(const LinearForward& job) {
  fill_rows(job.bias, job.output);
  multiply({.left = job.input, .right = job.weight, .result = job.output, .keep = 1.0F});
}

// As linear_forward, but adds to what `output` holds.
void linear_forward_onto(const LinearForward& job) {
  for (size_t row = 0; row < job.output.rows; ++row) {
    add(job.bias, {job.output.data + row * job.output.stride, job.output.columns});
  }
  multiply({.left = job.input, .right = job.weight, .result = job.output, .keep = 1.0F});
}

struct LinearBackward {
  ConstMatrix input;
  ConstMatrix weight;
  ConstMatrix output_gradient;
  Matrix input_gradient;           // overwritten
  Matrix weight_gradient;          // overwritten
  std::span<float> bias_gradient;  // overwritten
};

void linear_backward(const LinearBackward& job) {
  multiply(
      {.left = transposed(job.input), .right = job.output_gradient, .result = job.weight_gradient});
  sum_columns(job.output_gradient, job.bias_gradient);
  multiply(
      {.left = job.output_gradient, .right = transposed(job.weight), .result = job.input_gradient});
}

}  // namespace

Model::Model(const ModelConfig& config, size_t max_sequences)
    : config_(config),
      layout_(config),
      attention_(config),
      max_positions_(max_sequences * config.context),
      residual_(max_positions_ * config.width),
      final_norm_(make_norm()),
      logits_(max_positions_ * kVocabulary),
      residual_gradient_(residual_.size()),
      norm_output_gradient_(residual_.size()),
      attention_gradient_(residual_.size()),
      query_key_value_gradient_(kParts * residual_.size()),
      hidden_gradient_(kHiddenScale * residual_.size()) {
  assert(config.problem().empty() && max_sequences > 0);
  for (size_t i = 0; i < config.layers; ++i) {
    blocks_.push_back({
        .attention_norm = make_norm(),
        .query_key_value = std::vector<float>(kParts * residual_.size()),
        .probabilities = std::vector<float>(max_sequences * attention_.probability_count()),
        .attention = std::vector<float>(residual_.size()),
        .mlp_norm = make_norm(),
        .gelu_slope = std::vector<float>(kHiddenScale * residual_.size()),
        .hidden = std::vector<float>(kHiddenScale * residual_.size()),
    });
  }
}

Model::Norm Model::make_norm() const {
  return {.normalised = std::vector<float>(max_positions_ * config_.width),
          .inverse_deviation = std::vector<float>(max_positions_),
          .output = std::vector<float>(max_positions_ * config_.width)};
}

Matrix Model::rows_of(std::vector<float>& storage, size_t columns) const {
  assert(positions_ * columns <= storage.size());
  return {storage.data(), positions_, columns, columns};
}

double Model::forward(std::span<const float> parameters, const Batch& batch) {
  positions_ = batch.inputs.size();
  assert(positions_ <= max_positions_ && positions_ % config_.context == 0);
  assert(batch.targets.size() == positions_ && parameters.size() == layout_.parameter_count());
  embed(parameters, batch);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    block_forward(parameters, layout_.blocks()[i], blocks_[i]);
  }
  norm_forward(parameters, layout_.final_norm(), final_norm_);
  const Matrix logits = rows_of(logits_, kVocabulary);
  multiply({.left = rows_of(final_norm_.output, config_.width),
            .right = matrix_view(parameters, layout_.head()),
            .result = logits});
  return cross_entropy(batch.targets, logits);
}

void Model::backward(std::span<const float> parameters, const Batch& batch,
                     std::span<float> gradient) {
  assert(batch.inputs.size() == positions_ && gradient.size() == layout_.parameter_count());
  const Matrix logits_gradient = rows_of(logits_, kVocabulary);
  multiply({.left = transposed(rows_of(final_norm_.output, config_.width)),
            .right = logits_gradient,
            .result = matrix_view(gradient, layout_.head())});
  multiply({.left = logits_gradient,
            .right = transposed(matrix_view(parameters, layout_.head())),
            .result = rows_of(norm_output_gradient_, config_.width)});
  std::fill(residual_gradient_.begin(), residual_gradient_.end(), 0.0F);
  norm_backward(parameters, layout_.final_norm(), final_norm_, gradient);
  for (size_t i = blocks_.size(); i-- > 0;) {
    mlp_backward(parameters, layout_.blocks()[i], blocks_[i], gradient);
    attention_backward(parameters, layout_.blocks()[i], blocks_[i], gradient);
  }
  embed_backward(batch, gradient);
}

void Model::embed(std::span<const float> parameters, const Batch& batch) {
  const ConstMatrix tokens = matrix_view(parameters, layout_.token_embedding());
  const std::span<const float> places = view(parameters, layout_.position_embedding());
  for (size_t i = 0; i < positions_; ++i) {
    const std::span<float> row(residual_.data() + i * config_.width, config_.width);
    const float* const token = tokens.data + batch.inputs[i] * tokens.stride;
    std::copy_n(token, config_.width, row.begin());
    add(places.subspan(i % config_.context * config_.width, config_.width), row);
  }
}

void Model::embed_backward(const Batch& batch, std::span<float> gradient) {
  const std::span<float> tokens = view(gradient, layout_.token_embedding());
  const std::span<float> places = view(gradient, layout_.position_embedding());
  std::fill(tokens.begin(), tokens.end(), 0.0F);
  std::fill(places.begin(), places.end(), 0.0F);
  for (size_t i = 0; i < positions_; ++i) {
    const std::span<const float> row(residual_gradient_.data() + i * config_.width, config_.width);
    add(row, tokens.subspan(batch.inputs[i] * config_.width, config_.width));
    add(row, places.subspan(i % config_.context * config_.width, config_.width));
  }
}

void Model::norm_forward(std::span<const float> parameters, const NormTensors& tensors,
                         Norm& norm) {
  layer_norm_forward({.input = rows_of(residual_, config_.width),
                      .gain = view(parameters, tensors.gain),
                      .bias = view(parameters, tensors.bias),
                      .normalised = rows_of(norm.normalised, config_.width),
                      .inverse_deviation = norm.inverse_deviation,
                      .output = rows_of(norm.output, config_.width)});
}

// Takes the gradient of the norm's output from norm_output_gradient_ and adds that of its input to
// the residual's.
void Model::norm_backward(std::span<const float> parameters, const NormTensors& tensors, Norm& norm,
                          std::span<float> gradient) {
  layer_norm_backward({.output_gradient = rows_of(norm_output_gradient_, config_.width),
                       .normalised = rows_of(norm.normalised, config_.width),
                       .inverse_deviation = norm.inverse_deviation,
                       .gain = view(parameters, tensors.gain),
                       .gain_gradient = view(gradient, tensors.gain),
                       .bias_gradient = view(gradient, tensors.bias),
                       .input_gradient = rows_of(residual_gradient_, config_.width)});
}

void Model::block_forward(std::span<const float> parameters, const BlockTensors& tensors,
                          Block& block) {
  const size_t width = config_.width;
  const Matrix residual = rows_of(residual_, width);
  const Matrix query_key_value = rows_of(block.query_key_value, kParts * width);
  const Matrix attention = rows_of(block.attention, width);
  norm_forward(parameters, tensors.attention_norm, block.attention_norm);
  linear_forward({.input = rows_of(block.attention_norm.output, width),
                  .weight = matrix_view(parameters, tensors.query_key_value.weight),
                  .bias = view(parameters, tensors.query_key_value.bias),
                  .output = query_key_value});
  attention_.forward(query_key_value, block.probabilities, attention);
  linear_forward_onto({.input = attention,
                       .weight = matrix_view(parameters, tensors.attention_output.weight),
                       .bias = view(parameters, tensors.attention_output.bias),
                       .output = residual});

  const size_t hidden_width = kHiddenScale * width;
  const Matrix slope = rows_of(block.gelu_slope, hidden_width);
  norm_forward(parameters, tensors.mlp_norm, block.mlp_norm);
  linear_forward({.input = rows_of(block.mlp_norm.output, width),
                  .weight = matrix_view(parameters, tensors.mlp_up.weight),
                  .bias = view(parameters, tensors.mlp_up.bias),
                  .output = slope});
  const size_t hidden_count = positions_ * hidden_width;
  gelu_forward({block.gelu_slope.data(), hidden_count}, {block.hidden.data(), hidden_count});
  linear_forward_onto({.input = rows_of(block.hidden, hidden_width),
                       .weight = matrix_view(parameters, tensors.mlp_down.weight),
                       .bias = view(parameters, tensors.mlp_down.bias),
                       .output = residual});
}

void Model::mlp_backward(std::span<const float> parameters, const BlockTensors& tensors,
                         Block& block, std::span<float> gradient) {
  const size_t hidden_width = kHiddenScale * config_.width;
  const size_t hidden_count = positions_ * hidden_width;
  const Matrix hidden_gradient = rows_of(hidden_gradient_, hidden_width);
  linear_backward({.input = rows_of(block.hidden, hidden_width),
                   .weight = matrix_view(parameters, tensors.mlp_down.weight),
                   .output_gradient = rows_of(residual_gradient_, config_.width),
                   .input_gradient = hidden_gradient,
                   .weight_gradient = matrix_view(gradient, tensors.mlp_down.weight),
                   .bias_gradient = view(gradient, tensors.mlp_down.bias)});
  gelu_backward({block.gelu_slope.data(), hidden_count}, {hidden_gradient_.data(), hidden_count});
  linear_backward({.input = rows_of(block.mlp_norm.output, config_.width),
                   .weight = matrix_view(parameters, tensors.mlp_up.weight),
                   .output_gradient = hidden_gradient,
                   .input_gradient = rows_of(norm_output_gradient_, config_.width),
                   .weight_gradient = matrix_view(gradient, tensors.mlp_up.weight),
                   .bias_gradient = view(gradient, tensors.mlp_up.bias)});
  norm_backward(parameters, tensors.mlp_norm, block.mlp_norm, gradient);
}

void Model::attention_backward(std::span<const float> parameters, const BlockTensors& tensors,
                               Block& block, std::span<float> gradient) {
  const size_t width = config_.width;
  const Matrix attention_gradient = rows_of(attention_gradient_, width);
  const Matrix query_key_value_gradient = rows_of(query_key_value_gradient_, kParts * width);
  linear_backward({.input = rows_of(block.attention, width),
                   .weight = matrix_view(parameters, tensors.attention_output.weight),
                   .output_gradient = rows_of(residual_gradient_, width),
                   .input_gradient = attention_gradient,
                   .weight_gradient = matrix_view(gradient, tensors.attention_output.weight),
                   .bias_gradient = view(gradient, tensors.attention_output.bias)});
  attention_.backward({.output_gradient = attention_gradient,
                       .query_key_value = rows_of(block.query_key_value, kParts * width),
                       .probabilities = block.probabilities,
                       .query_key_value_gradient = query_key_value_gradient});
  linear_backward({.input = rows_of(block.attention_norm.output, width),
                   .weight = matrix_view(parameters, tensors.query_key_value.weight),
                   .output_gradient = query_key_value_gradient,
                   .input_gradient = rows_of(norm_output_gradient_, width),
                   .weight_gradient = matrix_view(gradient, tensors.query_key_value.weight),
                   .bias_gradient = view(gradient, tensors.query_key_value.bias)});
  norm_backward(parameters, tensors.attention_norm, block.attention_norm, gradient);
}

}  // namespace gpt
