#include "live/worker/testing/trainer.h"

#include <memory>
#include <numeric>
#include <span>

#include "base/hash.h"

namespace paceline::worker::testing {
namespace {

struct Model {
  std::vector<std::vector<float>> parameters;  // one array per bucket
  std::vector<std::vector<float>> gradients;
};

// Values of very different size, among them a few outliers that grow with the step.
void fill_gradient(const std::vector<float>& parameters, uint64_t seed, std::vector<float>& out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t random = mix64(seed + i);
    const float unit = static_cast<float>(static_cast<int64_t>(random) >> 40) * 0x1.0p-23f;
    out[i] = unit * (random % 97 == 0 ? 8.0f : 0.01f) + 0.125f * parameters[i];
  }
}

paceline_status run_step(Job& job, const TrainerOptions& options, Model& model) {
  for (;;) {
    paceline_micro_batch m{};
    while (job.next_micro_batch(&m) == PACELINE_OK) {
      if (options.on_micro_batch) options.on_micro_batch(job.rank(), m);
      if (options.in_micro_batch) options.in_micro_batch(job, m);
      for (uint32_t b = 0; b < model.parameters.size(); ++b) {
        fill_gradient(model.parameters[b], m.seed + b, model.gradients[b]);
        if (options.on_gradient) options.on_gradient(job.rank(), m, model.gradients[b]);
        const paceline_status status = job.accumulate(b, model.gradients[b].data());
        if (status != PACELINE_OK) return status;
      }
    }
    const paceline_status status = job.finish_step();
    if (status != PACELINE_MORE) return status;
  }
}

}  // namespace

TrainerResult train(Job& job, const TrainerOptions& options) {
  Model model;
  TrainerResult result;
  for (const std::vector<uint64_t>& tensors : options.buckets) {
    uint32_t bucket = 0;
    result.status = job.register_bucket("gradient", tensors, collective::Dtype::F32, &bucket);
    if (result.status != PACELINE_OK) return result;
    const uint64_t elements = std::accumulate(tensors.begin(), tensors.end(), uint64_t{0});
    model.parameters.emplace_back(elements, 0.5f);
    model.gradients.emplace_back(elements);
  }
  for (std::vector<float>& parameters : model.parameters)
    job.register_state("parameters" + std::to_string(&parameters - model.parameters.data()),
                       std::as_writable_bytes(std::span(parameters)));
  std::vector<std::byte> ballast(options.ballast_bytes, std::byte{0x5a});
  if (!ballast.empty()) job.register_state("ballast", ballast);
  paceline_step step{};
  while ((result.status = job.begin_step(&step)) == PACELINE_OK && step.step < options.steps) {
    result.status = run_step(job, options, model);
    if (result.status != PACELINE_OK) break;
    for (uint32_t b = 0; b < model.parameters.size(); ++b) {
      const float* sum = job.sum(b);
      const float rate = 0.1f / static_cast<float>(step.micro_batches);
      for (size_t i = 0; i < model.parameters[b].size(); ++i)
        model.parameters[b][i] -= rate * sum[i];
    }
    result.steps = step.step + 1;
    if (options.logs_lead && job.is_lead()) job.log_metric("step", static_cast<double>(step.step));
    if (options.on_update) options.on_update(job.rank(), result.steps, model.parameters[0]);
    if (options.between_steps && !options.between_steps(job, result.steps)) break;
    if (result.steps == options.steps) break;
  }
  result.digest = job.state_digest();
  const paceline_status finalized = job.finalize();
  if (finalized != PACELINE_OK) result.status = finalized;
  return result;
}

}  // namespace paceline::worker::testing
