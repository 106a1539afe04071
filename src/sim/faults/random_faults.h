// RandomFaults: breaks a World at random moments, from one seed. Same seed, same faults.
#pragma once

#include <array>
#include <cstdint>

#include "base/rng.h"
#include "sim/world/world.h"

namespace paceline::sim {

enum class FaultKind : uint8_t {
  KillRank,
  FreezeRank,  // thawed again after a while
  LoseHost,    // frozen with its agent, thawed after a while
  KillAgent,
  KillController,
  LoseConnection,
  SlowRank,
};
inline constexpr size_t kFaultKinds = 7;

struct FaultRates {
  Duration every = Duration::seconds(120);  // mean time between faults; exponential
  Duration first = Duration::seconds(5);
  Duration away_for = Duration::seconds(10);  // frozen ranks and hosts
  std::array<uint32_t, kFaultKinds> weight{4, 1, 2, 1, 2, 1, 1};
};

// Schedules faults in `world` until it ends. The object must outlive the run.
class RandomFaults {
 public:
  RandomFaults(World& world, uint64_t seed, const FaultRates& rates);

  uint64_t count() const { return count_; }

 private:
  void schedule_next();
  void strike();
  SlotId any_slot();

  World& world_;
  Rng rng_;
  FaultRates rates_;
  uint64_t count_ = 0;
};

}  // namespace paceline::sim
