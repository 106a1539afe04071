#include "emulated/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "emulated/timed_wait.h"

namespace emulated {
namespace {

constexpr double kSlowStepFactor = 20;
constexpr float kMomentum = 0.9F;
constexpr size_t kTensorElements = 48 * 1024;
constexpr unsigned kHangSeconds = 3600;

size_t floats_in_mb(double mb) { return std::max<size_t>(1, static_cast<size_t>(mb * 1e6 / 4)); }

// Equal tensors, and one of what is left.
std::vector<size_t> tensors_of(size_t elements) {
  std::vector<size_t> counts(elements / kTensorElements, kTensorElements);
  if (elements % kTensorElements != 0) counts.push_back(elements % kTensorElements);
  return counts;
}

// Of the job when it started, as torchrun's contract has it: without hot spares, which have nothing
// to be slow at.
uint32_t working_ranks() {
  const char* text = std::getenv("WORLD_SIZE");
  return std::max(1u,
                  text == nullptr ? 1u : static_cast<uint32_t>(std::strtoul(text, nullptr, 10)));
}

}  // namespace

Trainer::Trainer(const Options& options)
    : options_(options),
      gradient_(std::max<size_t>(floats_in_mb(options.gradient_mb), options.buckets)),
      state_(floats_in_mb(options.state_mb)),
      working_ranks_(working_ranks()),
      job_({.seed = options.seed, .micro_batches = options.micro_batches}) {
  size_t begin = 0;
  for (uint32_t i = 0; i < options_.buckets; ++i) {
    const size_t end = gradient_.size() * (i + 1) / options_.buckets;
    job_.register_bucket("bucket" + std::to_string(i), tensors_of(end - begin));
    bucket_ends_.push_back(end);
    begin = end;
  }
  job_.register_state("state", std::span<float>(state_));
}

void Trainer::run() {
  prepare_to_wait();
  try {
    train();
  } catch (const paceline::Error& error) {
    if (!has_skipped_) throw;
    wait_as_a_hung_program(error.what());
  }
}

void Trainer::train() {
  while (const std::optional<paceline_step> step = job_.begin_step()) {
    if (step->step >= options_.steps) break;  // resumed at the end
    if (!compute(*step)) return;
    update(*step);
    const uint64_t done = step->step + 1;
    if (done % options_.print_every == 0) print_progress(done);
    if (!evaluate(done)) return;
    if (done == options_.steps) break;
  }
  std::printf("emulated: rank %u ends; state digest %016llx\n", job_.rank(),
              static_cast<unsigned long long>(job_.state_digest()));
  std::fflush(stdout);
}

bool Trainer::compute(const paceline_step& step) {
  for (;;) {
    while (const std::optional<paceline_micro_batch> micro_batch = job_.next_micro_batch())
      compute_micro_batch(*micro_batch);
    switch (job_.finish_step()) {
      case paceline::StepOutcome::Committed:
        return true;
      case paceline::StepOutcome::More:
        break;
      case paceline::StepOutcome::Left:
        std::printf("emulated: rank %u left at step %llu\n", job_.rank(),
                    static_cast<unsigned long long>(step.step));
        return false;
    }
  }
}

// The last bucket first, and each after its part of the wait, as a backward pass would have it.
void Trainer::compute_micro_batch(const paceline_micro_batch& micro_batch) {
  TimedWait computing;
  Random random(micro_batch.seed);
  const double wait_ns = micro_batch_ms(micro_batch, random) * 1e6;
  fill_gradient(random, gradient_);
  for (uint32_t left = options_.buckets; left > 0; --left) {
    const uint32_t bucket = left - 1;
    const double fraction = static_cast<double>(options_.buckets - bucket) / options_.buckets;
    computing.until(static_cast<int64_t>(wait_ns * fraction));
    if (game_day_.should_skip({.step = micro_batch.step, .bucket = bucket, .slot = job_.rank()})) {
      has_skipped_ = true;
      continue;
    }
    job_.accumulate(bucket, gradient_.data() + (bucket == 0 ? 0 : bucket_ends_[bucket - 1]));
  }
}

double Trainer::micro_batch_ms(const paceline_micro_batch& micro_batch, Random& random) {
  double ms = options_.micro_batch_ms + options_.jitter_ms * random.uniform();
  if (is_slow_step(micro_batch.step)) ms *= kSlowStepFactor;
  return std::exchange(is_warm_, true) ? ms : ms + options_.warm_up_ms;
}

bool Trainer::is_slow_step(uint64_t step) const {
  const uint64_t every = options_.slow_step_every;
  if (every == 0 || step % every != every - 1) return false;
  const uint64_t number = step / every;
  switch (options_.slow_step_on) {
    case SlowStepOn::All:
      return true;
    case SlowStepOn::One:
      return number % working_ranks_ == job_.rank();
    case SlowStepOn::Mixed:
      return number % 2 == 0 || number / 2 % working_ranks_ == job_.rank();
  }
  return false;
}

// The library has refused the call after the contribution that was left out. A program in which
// such a bug hides waits then for the others, as they wait for it.
void Trainer::wait_as_a_hung_program(const char* refusal) const {
  std::printf("emulated: rank %u has skipped a contribution (game day) and waits: %s\n",
              job_.rank(), refusal);
  std::fflush(stdout);
  for (;;) sleep(kHangSeconds);
}

// state = 0.9 * state + mean gradient, in a window of the state that moves on with each step: the
// cost is that of the gradient, however large the state.
void Trainer::update(const paceline_step& step) {
  const float scale = 1.0F / static_cast<float>(step.micro_batches);
  size_t position = step.step % state_.size() * (gradient_.size() % state_.size()) % state_.size();
  size_t begin = 0;
  for (uint32_t bucket = 0; bucket < options_.buckets; ++bucket) {
    std::span<const float> sum(job_.sum(bucket), bucket_ends_[bucket] - begin);
    begin = bucket_ends_[bucket];
    while (!sum.empty()) {
      const size_t count = std::min(sum.size(), state_.size() - position);
      float* __restrict window = state_.data() + position;
      for (size_t i = 0; i < count; ++i) window[i] = kMomentum * window[i] + scale * sum[i];
      sum = sum.subspan(count);
      position = (position + count) % state_.size();
    }
  }
}

void Trainer::print_progress(uint64_t steps_done) const {
  if (!job_.is_lead()) return;
  std::printf("emulated: step %llu of %llu, %u ranks\n",
              static_cast<unsigned long long>(steps_done),
              static_cast<unsigned long long>(options_.steps), job_.world_size());
  std::fflush(stdout);
}

bool Trainer::evaluate(uint64_t steps_done) {
  if (options_.evaluate_every == 0 || steps_done % options_.evaluate_every != 0) return true;
  if (job_.is_lead()) TimedWait().until(static_cast<int64_t>(options_.evaluate_ms * 1e6));
  return job_.barrier();
}

}  // namespace emulated
