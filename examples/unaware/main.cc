// unaware: a training program that was written for torchrun and does not link libpaceline.
//
//     pace run --local 2 unaware --steps 200 --checkpoint state.txt
//
// It finds its peers from torchrun's environment, exits non-zero when it loses one, and continues
// from its own checkpoint when it is started again. Asked to end (SIGTERM), it saves first. The
// state after the last step does not depend on how often that happened.
#include <poll.h>

#include <cinttypes>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>

#include "unaware/checkpoint.h"
#include "unaware/rendezvous.h"

namespace unaware {
namespace {

constexpr int kUsageError = 64;

struct Options {
  uint64_t steps = 200;
  int step_ms = 20;
  std::string checkpoint = "unaware.checkpoint";
  uint64_t checkpoint_every = 10;
};

// What a rank adds to the state in a step; stands for its gradient.
uint64_t contribution_of(uint64_t step, uint32_t rank) {
  uint64_t x = step * 0x9E3779B97F4A7C15ull + rank;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  return x ^ (x >> 27);
}

// SIGTERM waits until it is asked for, between steps: nothing is interrupted.
void hold_back_sigterm() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
}
bool is_asked_to_end() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGTERM) == 1;
}

void train(const Options& options) {
  const Environment environment = read_environment();
  const Checkpoint start = load_checkpoint(options.checkpoint).value_or(Checkpoint{});
  Rendezvous rendezvous(environment);
  // Rank 0 decides where to start: another rank may have read the file before its last write.
  const bool is_master = environment.rank == 0;
  Checkpoint now{.steps_done = rendezvous.all_reduce(is_master ? start.steps_done : 0),
                 .state = rendezvous.all_reduce(is_master ? start.state : 0)};
  std::printf("rank %u of %u (local rank %u, restart %u): starts at step %" PRIu64 "\n",
              environment.rank, environment.world_size, environment.local_rank,
              environment.restart_count, now.steps_done);
  while (now.steps_done < options.steps) {
    poll(nullptr, 0, options.step_ms);  // the compute
    now.state += rendezvous.all_reduce(contribution_of(now.steps_done, environment.rank));
    now.steps_done += 1;
    // All end after the same step, whoever was told first.
    const bool is_last = rendezvous.all_reduce(is_asked_to_end() ? 1 : 0) != 0;
    const bool is_due = now.steps_done % options.checkpoint_every == 0;
    if (is_master && (is_due || is_last || now.steps_done == options.steps))
      save_checkpoint(options.checkpoint, now);
    if (is_last) {
      std::printf("rank %u: asked to end, stops after step %" PRIu64 "\n", environment.rank,
                  now.steps_done);
      return;
    }
  }
  std::printf("rank %u: done, state %016" PRIx64 "\n", environment.rank, now.state);
}

}  // namespace
}  // namespace unaware

int main(int argc, char** argv) {
  // Lines reach the launcher when they are printed.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  unaware::hold_back_sigterm();
  CLI::App app("A program for torchrun with a checkpoint of its own.", "unaware");
  app.option_defaults()->always_capture_default();
  unaware::Options options;
  app.add_option("--steps", options.steps, "Steps in all");
  app.add_option("--step-ms", options.step_ms, "Compute of a step")->check(CLI::Range(0, 60'000));
  app.add_option("--checkpoint", options.checkpoint, "File that rank 0 keeps");
  app.add_option("--checkpoint-every", options.checkpoint_every, "Steps between checkpoints")
      ->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : unaware::kUsageError;  // --help comes this way too
  }
  try {
    unaware::train(options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "unaware: %s\n", error.what());
    return 1;
  }
}
