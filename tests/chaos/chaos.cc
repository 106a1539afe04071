// chaos: many seeded runs of the simulated job under random faults; every safety property is
// checked after each event, and every run must come to its end.
//
//   chaos --seeds 1000 --hosts 16 --ranks 4 --steps 720 --step-ms 10000 --fault-every-s 120
//   chaos --seed 17 ...            one seed again, and its story
//
// Each seed runs twice when --twice is given: the digests must be equal.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "sim/faults/random_faults.h"
#include "sim/world/world.h"

namespace paceline::sim {
namespace {

struct Options {
  uint64_t first_seed = 1;
  uint64_t seeds = 20;
  uint64_t threads = 1;
  uint64_t hosts = 4, spares = 1, ranks = 2, steps = 400, step_ms = 50, micro_batches = 64;
  uint64_t fault_every_ms = 2000, limit_s = 7200, twice = 0, story = 0;
};

struct Tally {
  uint64_t runs = 0, failures = 0, faults = 0, incidents = 0, events = 0;
  uint64_t digest = 0;  // of all runs, whichever thread each was on
};

// Long steps are modelled with fewer reports, so that hours of them stay cheap.
Model model_of(const Options& options, uint64_t seed) {
  Model model;
  model.hosts = static_cast<uint32_t>(options.hosts);
  model.spare_hosts = static_cast<uint32_t>(options.spares);
  model.ranks_per_host = static_cast<uint32_t>(options.ranks);
  model.micro_batches = static_cast<uint32_t>(options.micro_batches);
  model.steps = options.steps;
  model.seed = seed;
  const uint64_t share = options.micro_batches / (options.hosts * options.ranks);
  model.micro_batch = Duration::microseconds(
      static_cast<int64_t>(options.step_ms * 1000 / (share == 0 ? 1 : share)));
  if (options.step_ms >= 1000) {
    model.window = Duration::seconds(1);
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

Outcome run_once(const Options& options, uint64_t seed, uint64_t* faults) {
  World world(model_of(options, seed));
  FaultRates rates;
  rates.every = Duration::milliseconds(static_cast<int64_t>(options.fault_every_ms));
  rates.first = Duration::milliseconds(static_cast<int64_t>(options.fault_every_ms / 2));
  RandomFaults random(world, seed, rates);
  if (options.story != 0) world.set_observer(tell);
  Outcome outcome = world.run(Duration::seconds(static_cast<int64_t>(options.limit_s)));
  *faults = random.count();
  if (options.story != 0) std::printf("%s", world.describe().c_str());
  return outcome;
}

bool run_seed(const Options& options, uint64_t seed, Tally& tally) {
  uint64_t faults = 0;
  const Outcome outcome = run_once(options, seed, &faults);
  std::string problem;
  if (outcome.violation) {
    problem = "VIOLATION " + *outcome.violation;
  } else if (!outcome.is_finished) {
    problem = str("not finished after ", options.limit_s, " s: ", outcome.committed, " turns");
  } else if (outcome.ended && outcome.ended->verdict != Verdict::Completed &&
             outcome.ended->exit_code != 75) {
    problem = "ended: " + outcome.ended->reason;
  }
  if (problem.empty() && options.twice != 0) {
    uint64_t again = 0;
    if (run_once(options, seed, &again).digest != outcome.digest) problem = "digest differs";
  }
  ++tally.runs;
  tally.faults += faults;
  tally.incidents += outcome.incidents.size();
  tally.events += outcome.events;
  tally.digest += mix64(seed ^ outcome.digest);
  if (problem.empty()) return true;
  ++tally.failures;
  std::printf("seed %llu: %s\n  again: chaos --first-seed %llu --seeds 1 (and the same flags)\n",
              static_cast<unsigned long long>(seed), problem.c_str(),
              static_cast<unsigned long long>(seed));
  return false;
}

bool parse(int argc, char** argv, Options& options) {
  const std::map<std::string, uint64_t*> flags = {{"--first-seed", &options.first_seed},
                                                  {"--seeds", &options.seeds},
                                                  {"--threads", &options.threads},
                                                  {"--hosts", &options.hosts},
                                                  {"--spares", &options.spares},
                                                  {"--ranks", &options.ranks},
                                                  {"--steps", &options.steps},
                                                  {"--step-ms", &options.step_ms},
                                                  {"--micro-batches", &options.micro_batches},
                                                  {"--fault-every-ms", &options.fault_every_ms},
                                                  {"--limit-s", &options.limit_s},
                                                  {"--twice", &options.twice},
                                                  {"--story", &options.story}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto found = flags.find(argv[i]);
    if (found == flags.end()) return false;
    const char* end = argv[i + 1] + std::strlen(argv[i + 1]);
    if (std::from_chars(argv[i + 1], end, *found->second).ptr != end) return false;
  }
  return argc % 2 == 1;
}

int run(const Options& options) {
  std::vector<Tally> tallies(options.threads);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < options.threads; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t i = t; i < options.seeds; i += options.threads)
        run_seed(options, options.first_seed + i, tallies[t]);
    });
  for (std::thread& thread : threads) thread.join();
  Tally total;
  for (const Tally& tally : tallies) {
    total.runs += tally.runs;
    total.failures += tally.failures;
    total.faults += tally.faults;
    total.incidents += tally.incidents;
    total.events += tally.events;
    total.digest += tally.digest;
  }
  std::printf(
      "chaos: %llu runs, %llu faults, %llu incidents, %llu events, %llu failed, digest %016llx\n",
      static_cast<unsigned long long>(total.runs), static_cast<unsigned long long>(total.faults),
      static_cast<unsigned long long>(total.incidents),
      static_cast<unsigned long long>(total.events),
      static_cast<unsigned long long>(total.failures),
      static_cast<unsigned long long>(total.digest));
  return total.failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace paceline::sim

int main(int argc, char** argv) {
  paceline::sim::Options options;
  if (!paceline::sim::parse(argc, argv, options) || options.threads == 0 || options.hosts == 0 ||
      options.ranks == 0) {
    std::fprintf(stderr, "chaos: unknown flag or a value that is no number\n");
    return 64;
  }
  return paceline::sim::run(options);
}
