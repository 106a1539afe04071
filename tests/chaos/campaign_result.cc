// The record of a campaign: what ran, where, and what it found.
#include <fstream>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/str.h"
#include "campaign.h"

namespace paceline::sim {
namespace {

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

nlohmann::ordered_json failures_of(const CampaignResult& result) {
  nlohmann::ordered_json failures = nlohmann::ordered_json::array();
  for (const SeedResult& each : result.seeds)
    if (!each.problem.empty()) failures.push_back({{"seed", each.seed}, {"problem", each.problem}});
  return failures;
}

}  // namespace

Status write_result(const Options& options, const CampaignResult& result) {
  const nlohmann::ordered_json json = {
      {"set", options.set},
      {"started", result.started},
      {"machine",
       {{"cpu", processor()},
        {"cores", std::thread::hardware_concurrency()},
        {"load_before", result.load_before},
        {"load_after", result.load_after}}},
      {"threads", options.threads},
      {"hosts", options.hosts},
      {"spare_hosts", options.spares},
      {"ranks_per_host", options.ranks},
      {"steps", options.steps},
      {"step_ms", options.step_ms},
      {"stop_after_s", options.stop_after_s},
      {"fault_every_ms", options.fault_every_ms},
      {"first_seed", options.first_seed},
      {"seeds", result.seeds.size()},
      {"wall_s", result.wall_s},
      {"faults", result.total(&SeedResult::faults)},
      {"incidents", result.total(&SeedResult::incidents)},
      {"events", result.total(&SeedResult::events)},
      {"lost_all_ranks", result.lost_all()},
      {"failed", result.failed()},
      {"failures", failures_of(result)},
      {"digest", str(std::hex, result.digest())},
  };
  std::ofstream file(options.out);
  file << std::setw(2) << json << "\n";
  file.close();
  if (!file) return Error{ErrorCode::Io, str("cannot write ", options.out)};
  return {};
}

}  // namespace paceline::sim
