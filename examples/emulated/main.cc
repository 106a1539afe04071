// emulated: a trainer whose compute is a timed wait.
//
//     pace run --local 4 emulated --steps 500 --micro-batch-ms 5
#include <cstdio>
#include <exception>
#include <map>
#include <string>

#include <CLI/CLI.hpp>

#include "emulated/trainer.h"

namespace {

constexpr int kUsageError = 64;

void add_options(CLI::App& app, emulated::Options& options) {
  const std::map<std::string, emulated::SlowStepOn> slow_step_on = {
      {"all", emulated::SlowStepOn::All},
      {"one", emulated::SlowStepOn::One},
      {"mixed", emulated::SlowStepOn::Mixed}};
  app.add_option("--steps", options.steps, "Updates to apply in all")->check(CLI::PositiveNumber);
  app.add_option("--micro-batch-ms", options.micro_batch_ms, "Emulated compute of a micro-batch")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--jitter-ms", options.jitter_ms, "At most so much is added to a micro-batch")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--warm-up-ms", options.warm_up_ms,
                 "Added to the first micro-batch of each process")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--gradient-mb", options.gradient_mb, "Gradient of a micro-batch, in 10^6 bytes")
      ->check(CLI::Range(0.0, 4e3));
  app.add_option("--state-mb", options.state_mb, "Registered state, in 10^6 bytes")
      ->check(CLI::Range(0.0, 64e3));
  app.add_option("--seed", options.seed, "Of gradients and jitter");
  app.add_option("--slow-step-every", options.slow_step_every,
                 "One step in so many computes 20 times as long (0: none)");
  app.add_option("--slow-step-on", options.slow_step_on,
                 "Ranks that compute it so: all, one, or mixed: all and one in turn")
      ->transform(CLI::CheckedTransformer(slow_step_on))
      ->default_str("all");
  app.add_option("--evaluate-every", options.evaluate_every,
                 "Steps between emulated evaluations by one rank, which the others wait for in a "
                 "barrier (0: none)");
  app.add_option("--evaluate-ms", options.evaluate_ms, "Emulated compute of an evaluation")
      ->check(CLI::Range(0.0, 1e8));
  app.add_option("--buckets", options.buckets, "Buckets that the gradient is reduced in")
      ->check(CLI::Range(1, 1024));
  app.add_option("--micro-batches", options.micro_batches,
                 "Micro-batches per step, where the launcher does not say")
      ->check(CLI::PositiveNumber);
  app.add_option("--print-every", options.print_every, "Steps between lines of progress")
      ->check(CLI::PositiveNumber);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Emulated training: waits instead of computing, but reduces and updates real numbers. Run it "
      "under `pace run`, or alone as a single rank.",
      "emulated");
  app.option_defaults()->always_capture_default();
  emulated::Options options;
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;  // --help comes this way too
  }
  try {
    emulated::Trainer(options).run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "emulated: %s\n", error.what());
    return 1;
  }
}
