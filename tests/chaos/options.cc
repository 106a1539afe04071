#include "options.h"

#include <charconv>
#include <map>
#include <string_view>

#include "base/str.h"

namespace paceline::sim {
namespace {

Error usage(std::string message) { return {ErrorCode::InvalidArgument, std::move(message)}; }

// Two hours of 16 hosts x 4 ranks, and a day of 64 x 8: 10 s steps, a fault every two minutes. Slow
// ranks make steps longer, so a job has fewer of them than its time has room for.
Status choose_set(std::string_view name, Options& options) {
  options.set = name;
  options.step_ms = 10'000;
  options.fault_every_ms = 120'000;
  if (name == "hours") {
    options.seeds = 1000;
    options.hosts = 16;
    options.ranks = 4;
    options.micro_batches = 256;
    options.steps = 720;
    options.stop_after_s = 2 * 3600;
  } else if (name == "days") {
    options.seeds = 20;
    options.hosts = 64;
    options.ranks = 8;
    options.micro_batches = 1024;
    options.steps = 8640;
    options.stop_after_s = 24 * 3600;
  } else {
    return usage(str("--set ", name, ": there are hours and days"));
  }
  options.limit_s = options.stop_after_s + 1800;
  return {};
}

}  // namespace

Result<Options> parse(int argc, const char* const* argv) {
  Options options;
  const std::map<std::string_view, uint64_t*> numbers = {
      {"--first-seed", &options.first_seed},
      {"--seeds", &options.seeds},
      {"--threads", &options.threads},
      {"--hosts", &options.hosts},
      {"--spares", &options.spares},
      {"--ranks", &options.ranks},
      {"--steps", &options.steps},
      {"--step-ms", &options.step_ms},
      {"--micro-batches", &options.micro_batches},
      {"--fault-every-ms", &options.fault_every_ms},
      {"--stop-after-s", &options.stop_after_s},
      {"--limit-s", &options.limit_s},
      {"--twice", &options.twice},
      {"--story", &options.story}};
  for (int i = 1; i < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (i + 1 == argc) return usage(str(flag, ": its value is missing"));
    const std::string_view value = argv[i + 1];
    if (flag == "--set") {
      TRY(choose_set(value, options));
    } else if (flag == "--out") {
      options.out = value;
    } else if (const auto found = numbers.find(flag); found == numbers.end()) {
      return usage(str(flag, ": no such flag; there are --set hours|days, --out FILE and those of ",
                       "tests/chaos/options.cc"));
    } else {
      const char* end = value.data() + value.size();
      if (std::from_chars(value.data(), end, *found->second).ptr != end || value.empty())
        return usage(str(flag, " ", value, ": not a number"));
    }
  }
  if (options.threads == 0 || options.hosts == 0 || options.ranks == 0)
    return usage("--threads, --hosts and --ranks are at least 1");
  return options;
}

}  // namespace paceline::sim
