// gpt: trains a small byte-level transformer with libpaceline.
//
//     pace run --local 4 gpt --steps 300
//
// The loop is the one of paceline.h. What makes a lost rank invisible in the result is all here:
// every float that the next step depends on is registered, the step number comes from the job, and
// a micro-batch's text is drawn from its seed.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "gpt/adam.h"
#include "gpt/corpus.h"
#include "gpt/matrix.h"
#include "gpt/model.h"
#include "paceline/paceline.hpp"

namespace gpt {
namespace {

constexpr size_t kBuckets = 4;
constexpr size_t kHeldOutSequences = 64;
constexpr uint64_t kWarmUpShare = 10;  // one step in so many
constexpr int kUsageError = 64;

struct Options {
  ModelConfig model;
  uint64_t steps = 300;
  size_t batch = 2;
  double learning_rate = 4e-3;
  uint64_t seed = 1;
  std::string data;
  uint64_t eval_every = 50;
  uint32_t micro_batches = 16;
};

// One rank's share in the training: the model, its optimizer and their registration with the job.
class Trainer final {
 public:
  // The corpus comes ready: reading it forks, which a process should do before it joins a job, and
  // a missing text should not cost the others a repair.
  Trainer(const Options& options, Corpus corpus)
      : options_(options),
        corpus_(std::move(corpus)),
        held_out_(corpus_.held_out_batch(kHeldOutSequences)),
        model_(options.model, std::max(options.batch, kHeldOutSequences)),
        parameters_(model_.layout().initial_parameters(options.seed)),
        adam_(parameters_.size(), {}),
        schedule_{.peak = options.learning_rate,
                  .warm_up_steps = options.steps / kWarmUpShare,
                  .total_steps = options.steps},
        gradient_(parameters_.size()),
        buckets_(model_.layout().buckets(kBuckets)),
        job_({.seed = options.seed, .micro_batches = options.micro_batches}) {
    for (const BucketRange& bucket : buckets_) {
      bucket_ids_.push_back(job_.register_bucket(bucket.name, bucket.element_counts));
    }
    job_.register_state("parameters", std::span<float>(parameters_));
    job_.register_state("adam.first_moments", adam_.first_moments());
    job_.register_state("adam.second_moments", adam_.second_moments());
  }

  // Returns when the last step is committed or the job has no further use for this rank.
  void run() {
    while (const std::optional<paceline_step> step = job_.begin_step()) {
      if (step->step >= options_.steps) return;  // resumed at the end
      if (!compute(*step)) return;
      update(*step);
      const uint64_t done = step->step + 1;
      if (done % options_.eval_every == 0 || done == options_.steps) evaluate(done);
      if (done == options_.steps) return;
    }
  }

 private:
  // Computes until the step is committed; false if this rank is no longer a member.
  bool compute(const paceline_step& step) {
    loss_sum_ = 0.0;
    loss_count_ = 0;
    for (;;) {
      while (const std::optional<paceline_micro_batch> micro_batch = job_.next_micro_batch()) {
        compute_gradient(micro_batch->seed);
      }
      switch (job_.finish_step()) {
        case paceline::StepOutcome::Committed:
          if (is_lead() && loss_count_ > 0) job_.log_metric("loss", mean_loss());
          return true;
        case paceline::StepOutcome::More:
          break;
        case paceline::StepOutcome::Left:
          std::printf("left at step %llu\n", static_cast<unsigned long long>(step.step));
          return false;
      }
    }
  }

  void compute_gradient(uint64_t seed) {
    const Batch batch = corpus_.training_batch(seed, options_.batch);
    loss_sum_ += model_.forward(parameters_, batch);
    ++loss_count_;
    model_.backward(parameters_, batch, gradient_);
    for (size_t i = 0; i < buckets_.size(); ++i) {
      job_.accumulate(bucket_ids_[i], gradient_.data() + buckets_[i].offset);
    }
  }

  void update(const paceline_step& step) {
    for (size_t i = 0; i < buckets_.size(); ++i) {
      adam_.apply({.step = step.step,
                   .learning_rate = schedule_.at(step.step),
                   .offset = buckets_[i].offset,
                   .gradient_sum = {job_.sum(bucket_ids_[i]), buckets_[i].count()},
                   .scale = 1.0F / static_cast<float>(step.micro_batches)},
                  parameters_);
    }
  }

  void evaluate(uint64_t steps_done) {
    if (!is_lead()) return;
    const double held_out_loss = model_.forward(parameters_, held_out_);
    job_.log_metric("held_out_loss", held_out_loss);
    std::printf("step %llu  loss %.4f  held-out loss %.4f nats/byte\n",
                static_cast<unsigned long long>(steps_done), mean_loss(), held_out_loss);
    std::fflush(stdout);
  }

  // Whether this rank speaks for all. Any rank could: they hold the same parameters.
  bool is_lead() const { return job_.is_lead(); }

  // Over this rank's own micro-batches of the step in hand.
  double mean_loss() const { return loss_count_ == 0 ? 0.0 : loss_sum_ / loss_count_; }

  const Options options_;
  const Corpus corpus_;
  const Batch held_out_;
  Model model_;
  std::vector<float> parameters_;
  Adam adam_;
  const LearningRateSchedule schedule_;
  std::vector<float> gradient_;
  const std::vector<BucketRange> buckets_;
  std::vector<uint32_t> bucket_ids_;
  double loss_sum_ = 0.0;
  int loss_count_ = 0;
  // Last, so that it is destroyed first: until it has left the job, other ranks may need the state
  // above.
  paceline::Job job_;
};

void add_options(CLI::App& app, Options& options) {
  app.add_option("--steps", options.steps, "Updates to apply in all")->check(CLI::PositiveNumber);
  app.add_option("--layers", options.model.layers, "Transformer blocks");
  app.add_option("--width", options.model.width, "Elements of the residual stream");
  app.add_option("--heads", options.model.heads, "Attention heads");
  app.add_option("--context", options.model.context, "Bytes per sequence");
  app.add_option("--batch", options.batch, "Sequences per micro-batch")->check(CLI::PositiveNumber);
  app.add_option("--learning-rate", options.learning_rate, "Peak of the schedule");
  app.add_option("--seed", options.seed, "Of the initial parameters and the sampling");
  app.add_option("--data", options.data, "Text file to train on (default: the King James Bible)");
  app.add_option("--eval-every", options.eval_every, "Steps between held-out losses")
      ->check(CLI::PositiveNumber);
  app.add_option("--micro-batches", options.micro_batches,
                 "Micro-batches per step, where the launcher does not say")
      ->check(CLI::PositiveNumber);
}

int run(const Options& options) {
  use_one_thread();
  std::string text = options.data.empty() ? read_bible() : read_text_file(options.data);
  Trainer trainer(options, Corpus(std::move(text), options.model.context));
  trainer.run();
  return 0;
}

}  // namespace
}  // namespace gpt

int main(int argc, char** argv) {
  CLI::App app(
      "Trains a byte-level transformer. Run it under `pace run`, or alone as a single rank.",
      "gpt");
  app.option_defaults()->always_capture_default();
  gpt::Options options;
  gpt::add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : gpt::kUsageError;  // --help comes this way too
  }
  const std::string problem = options.model.problem();
  if (!problem.empty()) {
    std::fprintf(stderr, "gpt: %s\n", problem.c_str());
    return gpt::kUsageError;
  }
  try {
    return gpt::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpt: %s\n", error.what());
    return 1;
  }
}
