// StateDonor: gives this rank's state to joiners (heal.h). The copy is made by the training thread
// at a begin_step; everything else is under the job's mutex.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/model/epoch.h"
#include "live/worker/bucket.h"
#include "live/worker/heal.h"
#include "live/worker/incoming.h"
#include "live/worker/transport.h"

namespace paceline::worker {

class StateDonor {
 public:
  explicit StateDonor(Transport& transport) : transport_(transport) {}

  // HealAsk and HealChunkAsk. `committed`: turns; is_in_step: the boundary of that turn has passed.
  struct Stand {
    Turn committed;
    bool is_in_step = false;
  };
  FrameVerdict take(RankId joiner, const FrameHeader& header, std::span<const std::byte> payload,
                    Stand stand, Instant now);
  // A joiner waits for a copy at the boundary after `committed` turns.
  bool wants_copy(Turn committed) const;
  void give(std::shared_ptr<const Snapshot> snapshot);
  // The sums are complete and not yet committed to the buckets.
  void committing(Turn turn, bool is_flagged, std::vector<Bucket>& buckets);
  void entered(const Epoch& epoch);
  // Its connection has ended. What is queued is dropped by the next sweep().
  void lost(RankId joiner);
  void sweep();

 private:
  struct Joiner {
    uint32_t request = 0;
    Turn wanted;
    bool is_first = false;
    bool is_lost = false;
    // Shared: several joiners may take the same copy, and frames borrow from it.
    std::shared_ptr<const Snapshot> snapshot;
  };
  void send_manifest(RankId id, const Joiner& joiner);
  void send_chunk(RankId id, const Joiner& joiner, uint32_t index);
  bool follows(const Joiner& joiner) const {
    return joiner.is_first && joiner.snapshot && !joiner.is_lost;
  }

  Transport& transport_;
  std::map<RankId, Joiner> joiners_;
};

}  // namespace paceline::worker
