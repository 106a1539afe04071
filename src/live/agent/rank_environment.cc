#include "live/agent/rank_environment.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/str.h"
#include "live/rpc/endpoint.h"
#include "live/wire/rank_ring.h"

namespace paceline::agent {
namespace {

using Variables = std::map<std::string, std::string>;

std::string hexadecimal(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

// What holds unless the user says otherwise.
void add_defaults(Variables& variables, const RankPlace& place) {
  // One thread per rank: exact mode needs a fixed number, and several ranks share a host.
  variables.try_emplace("OMP_NUM_THREADS", "1");
  variables.try_emplace("OPENBLAS_NUM_THREADS", "1");
  // The last lines before a crash are worth more than a buffer.
  variables.try_emplace("PYTHONUNBUFFERED", "1");
  variables.try_emplace("MASTER_ADDR", place.address);
  variables.try_emplace("MASTER_PORT", "29500");
  variables.try_emplace("TORCHELASTIC_RUN_ID", "paceline");
}

void add_torchrun(Variables& variables, const RankPlace& place) {
  const RankId id = place.rank.rank;
  variables["RANK"] = str(id.slot);
  variables["LOCAL_RANK"] = str(place.rank.local_rank);
  variables["WORLD_SIZE"] = str(place.rank.world_size);
  variables["LOCAL_WORLD_SIZE"] = str(place.local_world_size);
  variables["GROUP_RANK"] = str(id.slot.value() / std::max(place.local_world_size, 1u));
  variables["TORCHELASTIC_RESTART_COUNT"] = str(id.incarnation.value() - 1);
}

void add_paceline(Variables& variables, const Program& program, const RankPlace& place) {
  const RankId id = place.rank.rank;
  variables[wire::kSocketEnvironment] = str(place.socket);
  variables[wire::kRingEnvironment] = str(place.ring);
  variables[wire::kRankEnvironment] = str(id.slot, ".", id.incarnation);
  variables[wire::kTokenEnvironment] = hexadecimal(program.job_token);
  variables[wire::kAddressEnvironment] = place.address;
  variables.erase(wire::kJoinerEnvironment);
  if (place.rank.is_joiner) variables.emplace(wire::kJoinerEnvironment, "1");
}

}  // namespace

Environment rank_environment(const Environment& inherited, const Program& program,
                             const RankPlace& place) {
  Variables variables;
  for (const auto& [name, value] : inherited) variables[name] = value;
  for (const auto& [name, value] : program.environment) variables[name] = value;
  variables.erase(rpc::kTokenVariable);
  add_defaults(variables, place);
  add_torchrun(variables, place);
  add_paceline(variables, program, place);
  return {variables.begin(), variables.end()};
}

}  // namespace paceline::agent
