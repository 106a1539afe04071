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
  // `max_waiting_bytes`: how far a joiner may fall behind with the sums.
  explicit StateDonor(Transport& transport, size_t max_waiting_bytes = kMaxWaitingBytes)
      : transport_(transport), max_waiting_bytes_(max_waiting_bytes) {}

  // What joiners send. `committed`: turns; is_in_step: the boundary of that turn has passed.
  struct Stand {
    Turn committed;
    bool is_in_step = false;
  };
  FrameVerdict take(RankId joiner, const FrameHeader& header, std::span<const std::byte> payload,
                    Stand stand, Instant now);
  // A joiner waits for a copy at the boundary after `committed` turns.
  bool wants_copy(Turn committed) const;
  void give(std::shared_ptr<const Snapshot> snapshot);
  // No copy can be made: whoever waits for one is dropped.
  void refuse();
  // A joiner that follows waits to hear what the state hashes to after `committed` turns.
  bool wants_digest(Turn committed) const;
  void give_digest(Turn committed, uint64_t digest);
  // The sums are complete and not yet committed to the buckets.
  void committing(Turn turn, bool is_flagged, std::vector<Bucket>& buckets);
  void entered(const Epoch& epoch);
  // Its connection has ended. What is queued is dropped by the next sweep().
  void lost(RankId joiner);
  void sweep();
  // Copies that are kept for a joiner.
  size_t copies() const;

 private:
  struct Joiner {
    uint32_t attempt = 0;
    uint32_t request = 0;
    Turn wanted;
    bool is_first = false;
    bool is_lost = false;
    std::optional<Turn> copied_at;  // turns in the copy that it has been given
    bool has_digest = false;
    // Shared by the joiners that take the same copy and the frames that carry it. Nothing once the
    // joiner has all of it.
    std::shared_ptr<const Snapshot> snapshot;
  };
  void send_manifest(RankId id, const Joiner& joiner);
  void send_chunk(RankId id, const Joiner& joiner, uint32_t index);
  bool follows(const Joiner& joiner) const {
    return joiner.is_first && joiner.copied_at && !joiner.is_lost;
  }
  FrameVerdict take_ask(RankId id, const FrameHeader& header, std::span<const std::byte> payload,
                        Stand stand, Instant now);

  Transport& transport_;
  size_t max_waiting_bytes_;
  std::map<RankId, Joiner> joiners_;
};

}  // namespace paceline::worker
