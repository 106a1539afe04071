// RingReader: the agent's view of one rank's shared ring. It reads while the rank writes, and after
// the rank's death. Nothing that a rank writes there, garbage included, can hurt the reader.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/model/host_message.h"
#include "live/os/death_bell.h"
#include "live/os/memfd.h"
#include "live/wire/rank_ring.h"

namespace paceline::agent {

class RingReader {
 public:
  // Makes the ring, ready to be handed to the rank's process.
  static Result<RingReader> make(RankId rank);

  int descriptor() const { return memory_.descriptor(); }
  os::DeathBellParts bell() const { return {ring().bell.mutex, ring().bell.is_armed}; }

  // What the ring says now; the fields that come from the kernel are left alone.
  RankView view() const;
  // What was written since the last call, oldest first. What was overwritten before is skipped.
  std::vector<RankSample> take_samples();
  std::vector<RankMetric> take_metrics();

 private:
  RingReader(RankId rank, os::SharedMemory memory) : rank_(rank), memory_(std::move(memory)) {}
  wire::RankRing& ring() const { return *static_cast<wire::RankRing*>(memory_.data()); }

  RankId rank_;
  os::SharedMemory memory_;
  uint64_t samples_read_ = 0;
  uint64_t metrics_read_ = 0;
};

}  // namespace paceline::agent
