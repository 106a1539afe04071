// A training loop whose gradients depend on parameters, micro-batch seed and element alone, so that
// two runs of it must end with the same bits whatever happens to their ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/time.h"
#include "live/worker/job.h"

namespace paceline::worker::testing {

struct TrainerOptions {
  uint64_t steps = 5;
  uint64_t seed = 42;
  // Called when a micro-batch has been begun, before its gradient is accumulated: the place for a
  // fault of the rank's own.
  std::function<void(uint32_t slot, const paceline_micro_batch& m)> on_micro_batch;
  // The same with the job at hand, to call it out of order.
  std::function<void(Job& job, const paceline_micro_batch& m)> in_micro_batch = {};
  // Called with each gradient before it is accumulated: what another host might make of it.
  std::function<void(uint32_t slot, const paceline_micro_batch& m, std::span<float> gradient)>
      on_gradient = {};
  size_t ballast_bytes = 0;  // registered state that no step changes
  bool logs_lead = false;    // the lead logs a metric at each step
  // Called when the parameters have been updated, with `steps` updates in them.
  std::function<void(uint32_t slot, uint64_t steps, std::span<float> parameters)> on_update = {};
  // Called between a step's update and the next step. False: the loop ends here.
  std::function<bool(Job& job, uint64_t steps)> between_steps = {};
  std::vector<std::vector<uint64_t>> buckets = {{40000, 3}, {1000, 17}};
};

struct TrainerResult {
  paceline_status status = PACELINE_OK;  // of the call that ended the loop
  uint64_t steps = 0;
  uint64_t digest = 0;
};

// Trains until `steps` or until it is told to end; finalizes.
TrainerResult train(Job& job, const TrainerOptions& options);

}  // namespace paceline::worker::testing
