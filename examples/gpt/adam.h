// The Adam optimizer with bias correction, and its learning rate over a run.
//
// The update is element by element and reads nothing but its arguments and the moments, so ranks
// that hold the same state and the same sums stay equal bit for bit. Step numbers come from the
// job: Adam counts nothing by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gpt {

// Rises linearly over the warm-up, then falls along half a cosine to `floor` of the peak at the
// last step.
struct LearningRateSchedule {
  double peak = 0.0;
  uint64_t warm_up_steps = 0;
  uint64_t total_steps = 1;
  double floor = 0.05;

  double at(uint64_t step) const;
};

class Adam final {
 public:
  struct Options {
    float first_decay = 0.9F;    // memory of the mean of the gradient
    float second_decay = 0.98F;  // memory of its square; short, because runs here are short
    float epsilon = 1e-8F;
  };

  Adam(size_t parameter_count, const Options& options);

  // Update number `step` (from 0) of the parameters that start at `offset`, by gradient = scale *
  // gradient_sum.
  struct Update {
    uint64_t step = 0;
    double learning_rate = 0.0;
    size_t offset = 0;
    std::span<const float> gradient_sum;
    float scale = 1.0F;
  };
  void apply(const Update& update, std::span<float> parameters);

  // State that the next update depends on.
  std::span<float> first_moments() { return first_moments_; }
  std::span<float> second_moments() { return second_moments_; }

 private:
  Options options_;
  std::vector<float> first_moments_;
  std::vector<float> second_moments_;
};

}  // namespace gpt
