#include "seed_run.h"

#include <algorithm>
#include <cstdio>
#include <variant>

#include "base/hash.h"
#include "base/str.h"
#include "sim/faults/random_faults.h"
#include "sim/world/world.h"

namespace paceline::sim {
namespace {

constexpr int32_t kExitRequeue = 75;     // no rank is left that has the state
constexpr uint64_t kSliceSeconds = 300;  // of virtual time, between two looks at how far it is

// Long steps are modelled with fewer reports, so that hours of them stay cheap.
Model model_of(const Options& options, uint64_t seed) {
  Model model;
  model.hosts = static_cast<uint32_t>(options.hosts);
  model.spare_hosts = static_cast<uint32_t>(options.spares);
  model.has_cold_spares = mix64(seed) % 2 == 0;
  model.ranks_per_host = static_cast<uint32_t>(options.ranks);
  model.micro_batches = static_cast<uint32_t>(options.micro_batches);
  model.steps = options.steps;
  model.seed = seed;
  model.link_jitter = Duration::milliseconds(5);
  model.reduce_spread = Duration::milliseconds(2);
  const uint64_t share = options.micro_batches / (options.hosts * options.ranks);
  model.micro_batch = Duration::microseconds(
      static_cast<int64_t>(options.step_ms * 1000 / (share == 0 ? 1 : share)));
  if (options.step_ms >= 1000) {
    model.window = model.quiet_window = Duration::seconds(1);
    model.peer_silence = Duration::seconds(2);
    model.silence_limit = Duration::seconds(4);
  }
  return model;
}

void tell(Instant now, const JobEvent& event) {
  std::string text;
  if (const auto* notice = std::get_if<Notice>(&event)) text = notice->text;
  if (const auto* changed = std::get_if<IncidentChanged>(&event)) {
    const Incident& incident = changed->incident;
    text = str("incident ", incident.id, " kind ", static_cast<int>(incident.kind), " ",
               incident.rank ? str(*incident.rank) : "", " ", incident.evidence, "; ",
               incident.reason, incident.recovered ? "; recovered" : "");
  }
  if (const auto* ended = std::get_if<JobEnded>(&event)) text = "ended: " + ended->reason;
  if (!text.empty()) std::printf("%9.3f %s\n", (now - Instant()).in_seconds(), text.c_str());
}

struct Run {
  Outcome outcome;
  uint64_t faults = 0;
};

Run run_once(const Options& options, uint64_t seed, std::atomic<uint64_t>& simulated_s) {
  World world(model_of(options, seed));
  FaultRates rates;
  rates.every = Duration::milliseconds(static_cast<int64_t>(options.fault_every_ms));
  rates.first = Duration::milliseconds(static_cast<int64_t>(options.fault_every_ms / 2));
  RandomFaults random(world, seed, rates);
  if (options.story != 0) world.set_observer(tell);
  Run run;
  for (uint64_t passed = 0; passed < options.limit_s; passed += kSliceSeconds) {
    const uint64_t slice = std::min(kSliceSeconds, options.limit_s - passed);
    // Again and again: nobody answers while the controller is down.
    if (options.stop_after_s != 0 && passed >= options.stop_after_s) world.stop_job();
    run.outcome = world.run(Duration::seconds(static_cast<int64_t>(slice)));
    if (run.outcome.is_finished || run.outcome.violation) break;
    simulated_s += slice;
  }
  run.faults = random.count();
  if (options.story != 0) std::printf("%s", world.describe().c_str());
  return run;
}

bool has_lost_all(const Outcome& outcome) {
  return outcome.ended && outcome.ended->verdict == Verdict::Failed &&
         outcome.ended->exit_code == kExitRequeue;
}

std::string problem_of(const Options& options, const Outcome& outcome) {
  if (outcome.violation) return "VIOLATION " + *outcome.violation;
  if (!outcome.is_finished)
    return str("not finished after ", options.limit_s, " s: ", outcome.committed, " turns");
  const bool has_failed = outcome.ended && outcome.ended->verdict == Verdict::Failed;
  return has_failed && !has_lost_all(outcome) ? "ended: " + outcome.ended->reason : "";
}

}  // namespace

SeedResult run_seed(const Options& options, uint64_t seed, std::atomic<uint64_t>& simulated_s) {
  const Run run = run_once(options, seed, simulated_s);
  SeedResult result{.seed = seed,
                    .problem = problem_of(options, run.outcome),
                    .has_lost_all = has_lost_all(run.outcome),
                    .faults = run.faults,
                    .incidents = run.outcome.incidents.size(),
                    .events = run.outcome.events,
                    .digest = run.outcome.digest};
  if (result.problem.empty() && options.twice != 0 &&
      run_once(options, seed, simulated_s).outcome.digest != result.digest)
    result.problem = "digest differs";
  return result;
}

}  // namespace paceline::sim
