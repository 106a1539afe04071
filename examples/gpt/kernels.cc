#include "gpt/kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "gpt/vectorise.h"

namespace gpt {
namespace {

constexpr float kNormEpsilon = 1e-5F;

constexpr float kLog2E = 1.44269504F;
constexpr float kLn2High = 0.693359375F;  // few bits, so that n * kLn2High is exact
constexpr float kLn2Low = -2.12194440e-4F;
// 1.5 * 2^23: adding it leaves the nearest integer in the low bits.
constexpr float kRound = 12582912.0F;

constexpr float kGeluScale = 1.59576912F;  // 2 sqrt(2/pi)
constexpr float kGeluCubic = 0.044715F;

float total(const float (&lanes)[kLanes]) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// e^x to about 2 units in the last place, without a call, so that loops over it vectorise.
// x = n ln2 + r with |r| <= ln2 / 2; e^r by its series. Below -87 the result is about 1e-38, above
// 88 about 2e38. NaN stays NaN.
inline float fast_exp(float x) {
  const float clamped = x > 88.0F ? 88.0F : (x < -87.0F ? -87.0F : x);
  const float shifted = clamped * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float series = 1.9875691500e-4F;
  series = series * r + 1.3981999507e-3F;
  series = series * r + 8.3334519073e-3F;
  series = series * r + 4.1665795894e-2F;
  series = series * r + 1.6666665459e-1F;
  series = series * r + 5.0000001201e-1F;
  series = series * r * r + r + 1.0F;
  // The low bits of `shifted` hold n; moved into the exponent field they multiply by 2^n.
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) + 127U) << 23U;
  return series * std::bit_cast<float>(exponent);
}

}  // namespace

GPT_VECTORISE void fill_rows(std::span<const float> bias, Matrix result) {
  for (size_t row = 0; row < result.rows; ++row) {
    std::copy(bias.begin(), bias.end(), result.data + row * result.stride);
  }
}

GPT_VECTORISE void sum_columns(ConstMatrix matrix, std::span<float> sums) {
  float* const __restrict out = sums.data();
  std::fill(sums.begin(), sums.end(), 0.0F);
  for (size_t row = 0; row < matrix.rows; ++row) {
    const float* const in = matrix.data + row * matrix.stride;
    for (size_t j = 0; j < matrix.columns; ++j) out[j] += in[j];
  }
}

GPT_VECTORISE void add(std::span<const float> source, std::span<float> target) {
  const float* const in = source.data();
  float* const __restrict out = target.data();
  for (size_t i = 0; i < source.size(); ++i) out[i] += in[i];
}

GPT_VECTORISE void layer_norm_forward(const LayerNormForward& job) {
  const size_t width = job.input.columns;
  const float* const gain = job.gain.data();
  const float* const bias = job.bias.data();
  for (size_t row = 0; row < job.input.rows; ++row) {
    const float* const in = job.input.data + row * job.input.stride;
    float* const __restrict normalised = job.normalised.data + row * job.normalised.stride;
    float* const __restrict out = job.output.data + row * job.output.stride;
    float sums[kLanes] = {};
    for (size_t j = 0; j < width; j += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += in[j + lane];
    }
    const float mean = total(sums) / static_cast<float>(width);
    float squares[kLanes] = {};
    for (size_t j = 0; j < width; j += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const float centred = in[j + lane] - mean;
        squares[lane] += centred * centred;
      }
    }
    const float variance = total(squares) / static_cast<float>(width);
    const float inverse = 1.0F / std::sqrt(variance + kNormEpsilon);
    job.inverse_deviation[row] = inverse;
    for (size_t j = 0; j < width; ++j) {
      const float value = (in[j] - mean) * inverse;
      normalised[j] = value;
      out[j] = value * gain[j] + bias[j];
    }
  }
}

// With n the normalised row, g = output gradient * gain and <> the mean over the row:
// input gradient = (g - <g> - n <g n>) / deviation.
GPT_VECTORISE void layer_norm_backward(const LayerNormBackward& job) {
  const size_t width = job.normalised.columns;
  const float* const gain = job.gain.data();
  float* const __restrict gain_gradient = job.gain_gradient.data();
  float* const __restrict bias_gradient = job.bias_gradient.data();
  std::fill(job.gain_gradient.begin(), job.gain_gradient.end(), 0.0F);
  std::fill(job.bias_gradient.begin(), job.bias_gradient.end(), 0.0F);
  for (size_t row = 0; row < job.normalised.rows; ++row) {
    const float* const out = job.output_gradient.data + row * job.output_gradient.stride;
    const float* const normalised = job.normalised.data + row * job.normalised.stride;
    float* const __restrict in = job.input_gradient.data + row * job.input_gradient.stride;
    float sums[kLanes] = {};
    float dots[kLanes] = {};
    for (size_t j = 0; j < width; j += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const float scaled = out[j + lane] * gain[j + lane];
        sums[lane] += scaled;
        dots[lane] += scaled * normalised[j + lane];
      }
    }
    const float mean = total(sums) / static_cast<float>(width);
    const float mean_dot = total(dots) / static_cast<float>(width);
    const float inverse = job.inverse_deviation[row];
    for (size_t j = 0; j < width; ++j) {
      gain_gradient[j] += out[j] * normalised[j];
      bias_gradient[j] += out[j];
      in[j] += inverse * (out[j] * gain[j] - mean - normalised[j] * mean_dot);
    }
  }
}

// gelu(x) = x s(2u) with u = sqrt(2/pi) (x + 0.044715 x^3) and s the logistic function, since
// (1 + tanh(u)) / 2 = s(2u).
GPT_VECTORISE void gelu_forward(std::span<float> slopes, std::span<float> values) {
  float* const __restrict slope = slopes.data();
  float* const __restrict value = values.data();
  const size_t count = slopes.size();
  for (size_t i = 0; i < count; ++i) {
    const float x = slope[i];
    const float square = x * x;
    const float logistic = 1.0F / (1.0F + fast_exp(-kGeluScale * x * (1.0F + kGeluCubic * square)));
    const float derivative_of_2u = kGeluScale * (1.0F + 3.0F * kGeluCubic * square);
    value[i] = x * logistic;
    slope[i] = logistic + x * logistic * (1.0F - logistic) * derivative_of_2u;
  }
}

GPT_VECTORISE void gelu_backward(std::span<const float> slopes, std::span<float> gradient) {
  const float* const slope = slopes.data();
  float* const __restrict out = gradient.data();
  for (size_t i = 0; i < slopes.size(); ++i) out[i] *= slope[i];
}

GPT_VECTORISE void causal_softmax_forward(Matrix scores) {
  for (size_t row = 0; row < scores.rows; ++row) {
    float* const __restrict out = scores.data + row * scores.stride;
    const size_t visible = row + 1;
    // Whole lanes: the elements past the visible ones count as exp(-infinity) = 0.
    const size_t padded = (visible + kLanes - 1) / kLanes * kLanes;
    float largest = out[0];
    for (size_t j = 1; j < visible; ++j) largest = out[j] > largest ? out[j] : largest;
    for (size_t j = 0; j < padded; ++j) out[j] = fast_exp(out[j] - largest);
    std::fill(out + visible, out + scores.columns, 0.0F);
    float sums[kLanes] = {};
    for (size_t j = 0; j < padded; j += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += out[j + lane];
    }
    const float inverse = 1.0F / total(sums);
    for (size_t j = 0; j < padded; ++j) out[j] *= inverse;
  }
}

GPT_VECTORISE void causal_softmax_backward(ConstMatrix probabilities, Matrix gradient) {
  for (size_t row = 0; row < gradient.rows; ++row) {
    const float* const probability = probabilities.data + row * probabilities.stride;
    float* const __restrict out = gradient.data + row * gradient.stride;
    float dots[kLanes] = {};
    for (size_t j = 0; j < gradient.columns; j += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        dots[lane] += probability[j + lane] * out[j + lane];
      }
    }
    const float dot = total(dots);
    for (size_t j = 0; j < gradient.columns; ++j) out[j] = probability[j] * (out[j] - dot);
  }
}

GPT_VECTORISE double cross_entropy(std::span<const uint8_t> targets, Matrix logits) {
  const float per_row = 1.0F / static_cast<float>(logits.rows);
  double loss = 0.0;
  for (size_t row = 0; row < logits.rows; ++row) {
    float* const __restrict out = logits.data + row * logits.stride;
    const size_t target = targets[row];
    float largest[kLanes];
    std::copy(out, out + kLanes, largest);
    for (size_t j = kLanes; j < logits.columns; j += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        largest[lane] = out[j + lane] > largest[lane] ? out[j + lane] : largest[lane];
      }
    }
    const float shift = *std::max_element(largest, largest + kLanes);
    const float target_logit = out[target] - shift;
    for (size_t j = 0; j < logits.columns; ++j) out[j] = fast_exp(out[j] - shift);
    float sums[kLanes] = {};
    for (size_t j = 0; j < logits.columns; j += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += out[j + lane];
    }
    const float sum = total(sums);
    loss += std::log(static_cast<double>(sum)) - static_cast<double>(target_logit);
    const float scale = per_row / sum;
    for (size_t j = 0; j < logits.columns; ++j) out[j] *= scale;
    out[target] -= per_row;
  }
  return loss / static_cast<double>(logits.rows);
}

}  // namespace gpt
