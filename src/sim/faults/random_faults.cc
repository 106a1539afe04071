#include "sim/faults/random_faults.h"

#include <cmath>

#include "base/check.h"

namespace paceline::sim {

RandomFaults::RandomFaults(World& world, uint64_t seed, const FaultRates& rates)
    : world_(world), rng_(mix64(seed ^ 0x6661'756c'7473ull)), rates_(rates) {
  world_.queue().after(rates_.first, [this] { strike(); });
}

void RandomFaults::schedule_next() {
  const double wait = -std::log1p(-rng_.uniform()) * rates_.every.in_seconds();
  world_.queue().after(Duration::microseconds(static_cast<int64_t>(wait * 1e6)),
                       [this] { strike(); });
}

SlotId RandomFaults::any_slot() {
  const Model& model = world_.model();
  return SlotId(static_cast<uint32_t>(
      rng_.below((model.hosts + model.spare_hosts) * uint64_t{model.ranks_per_host})));
}

void RandomFaults::strike() {
  ++count_;
  uint64_t total = 0;
  for (const uint32_t weight : rates_.weight) total += weight;
  CHECK(total > 0);
  uint64_t pick = rng_.below(total);
  size_t kind = 0;
  while (pick >= rates_.weight[kind]) pick -= rates_.weight[kind++];
  const Model& model = world_.model();
  const uint32_t host = static_cast<uint32_t>(rng_.below(model.hosts + model.spare_hosts));
  switch (static_cast<FaultKind>(kind)) {
    case FaultKind::KillRank:
      world_.kill_rank(any_slot());
      break;
    case FaultKind::FreezeRank: {
      const SlotId slot = any_slot();
      world_.freeze_rank(slot);
      world_.queue().after(rates_.away_for, [this, slot] { world_.thaw_rank(slot); });
      break;
    }
    case FaultKind::LoseHost:
      world_.lose_host(host, rates_.away_for);
      break;
    case FaultKind::KillAgent:
      world_.kill_agent(host);
      break;
    case FaultKind::KillController:
      world_.kill_controller();
      break;
    case FaultKind::LoseConnection:
      world_.lose_connection(any_slot(), any_slot());
      break;
    case FaultKind::SlowRank:
      world_.slow_rank(any_slot(), static_cast<uint32_t>(rng_.between(100, 300)));
      break;
  }
  schedule_next();
}

}  // namespace paceline::sim
