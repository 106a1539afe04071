// chaos: many seeded runs of the simulated job under random faults; every safety property is
// checked after each event, and every run must come to its end.
//
//   chaos --set hours --threads 2 --out out/sim-hours.json
//   chaos --seeds 1000 --hosts 16 --ranks 4 --steps 720 --step-ms 10000 --fault-every-ms 120000
//   chaos --first-seed 17 --seeds 1 --story 1 ...     one seed again, and its story
//
// Each seed runs twice when --twice 1 is given: the digests must be equal.
#include <cstdio>

#include "campaign.h"
#include "options.h"

namespace paceline::sim {
namespace {

void print_summary(const CampaignResult& result) {
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(
      "chaos: %zu runs in %.0f s, %llu faults, %llu incidents, %llu events, %llu lost all "
      "ranks, %llu failed, digest %016llx\n",
      result.seeds.size(), result.wall_s, number(result.total(&SeedResult::faults)),
      number(result.total(&SeedResult::incidents)), number(result.total(&SeedResult::events)),
      number(result.lost_all()), number(result.failed()), number(result.digest()));
}

int run(int argc, char** argv) {
  const Result<Options> options = parse(argc, argv);
  if (!options) {
    std::fprintf(stderr, "chaos: %s\n", options.error().message.c_str());
    return 64;
  }
  const CampaignResult result = run_campaign(*options);
  print_summary(result);
  if (!options->out.empty()) {
    if (const Status status = write_result(*options, result); !status) {
      std::fprintf(stderr, "chaos: %s\n", status.error().message.c_str());
      return 74;
    }
  }
  return result.failed() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace paceline::sim

int main(int argc, char** argv) { return paceline::sim::run(argc, argv); }
