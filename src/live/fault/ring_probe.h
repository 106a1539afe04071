// RingProbe: what a rank is doing, read from the memory that it shares with its agent.
//
// An outsider's look: the ring is found through /proc by the process id alone, so that neither the
// agent nor the library knows of it. The library closes the ring's descriptor once it has mapped
// it, so what is read is the mapping, from the process's memory. Reading does not disturb the rank.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "core/model/sample.h"
#include "live/wire/rank_ring.h"

namespace paceline::fault {

struct RankGlance {
  uint64_t step = 0;
  RankPhase phase = RankPhase::Starting;
  uint32_t micro_batch = 0;
  bool is_reducing = false;
  bool has_voted = false;
  pid_t main_thread = 0;  // 0: not known yet
  bool has_ended = false;
};

class RingProbe {
 public:
  // Unavailable while the process is being started.
  static Result<RingProbe> open(pid_t process);

  // Once the process has ended: what it was doing last.
  RankGlance glance();

 private:
  RingProbe(pid_t process, uintptr_t ring) : process_(process), ring_(ring) {}

  pid_t process_;
  uintptr_t ring_;  // its address in the process
  RankGlance last_;
};

}  // namespace paceline::fault
