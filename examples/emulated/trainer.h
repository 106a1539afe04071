// The emulated trainer: the loop of paceline.h with a timed wait for compute and real gradients,
// real reductions and real state. What it measures is the job around the training, not the
// training.
#pragma once

#include <cstdint>
#include <vector>

#include "emulated/gradient.h"
#include "paceline/paceline.hpp"
#include "support/game_day.h"

namespace emulated {

// Mixed: every other slow step on all ranks, the ones between on one rank alone, each time another.
enum class SlowStepOn : uint8_t { All, One, Mixed };

struct Options {
  uint64_t steps = 200;
  double micro_batch_ms = 10;
  double jitter_ms = 0;   // added to a micro-batch, uniform in [0, jitter_ms)
  double warm_up_ms = 0;  // added to the first micro-batch of each process
  double gradient_mb = 1;
  double state_mb = 4;
  uint64_t seed = 1;
  uint64_t slow_step_every = 0;  // 0: never
  SlowStepOn slow_step_on = SlowStepOn::All;
  uint64_t evaluate_every = 0;  // 0: never
  double evaluate_ms = 100;     // by the lead, while the others wait for it in a barrier
  uint32_t buckets = 2;
  uint32_t micro_batches = 8;
  uint64_t print_every = 50;
};

class Trainer final {
 public:
  explicit Trainer(const Options& options);

  // Returns when the last step is committed or the job has no further use for this rank.
  void run();

 private:
  void train();
  // Computes until the step is committed; false if this rank is no longer a member.
  bool compute(const paceline_step& step);
  void compute_micro_batch(const paceline_micro_batch& micro_batch);
  double micro_batch_ms(const paceline_micro_batch& micro_batch, Random& random);
  bool is_slow_step(uint64_t step) const;
  [[noreturn]] void wait_as_a_hung_program(const char* refusal) const;
  void update(const paceline_step& step);
  void print_progress(uint64_t steps_done) const;
  // False if this rank is no longer a member.
  bool evaluate(uint64_t steps_done);

  const Options options_;
  std::vector<float> gradient_;      // of one micro-batch, bucket after bucket
  std::vector<size_t> bucket_ends_;  // in gradient_
  std::vector<float> state_;         // registered: what the next step depends on
  support::GameDay game_day_;
  bool has_skipped_ = false;  // a contribution, on a game day
  bool is_warm_ = false;
  const uint32_t working_ranks_;
  // Last, so that it is destroyed first: until it has left the job, other ranks may need the state
  // above.
  paceline::Job job_;
};

}  // namespace emulated
