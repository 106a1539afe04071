// StateDonor: gives this rank's state to joiners (heal.h). All under the job's mutex.
//
// The copy is begun at a begin_step and made while the step computes. What is for the joiner
// meanwhile waits behind it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/model/epoch.h"
#include "live/worker/bucket.h"
#include "live/worker/heal.h"
#include "live/worker/incoming.h"
#include "live/worker/transport.h"
#include "live/worker/trial.h"

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
  // Memory for the copy is made ready before a joiner is told where this rank stands, so that the
  // copy itself is short: for whoever asks there must be some, or some under way (reserved).
  bool wants_memory() const;
  void reserve_memory() { is_memory_reserved_ = true; }
  void give_memory(Snapshot memory, Turn committed);
  std::optional<Snapshot> take_memory() { return std::exchange(memory_, std::nullopt); }
  // A joiner waits for a copy at the boundary after `committed` turns.
  bool wants_copy(Turn committed) const;
  // The copy for all that wait at this boundary is being made.
  void begin_copy(Turn committed);
  void give(std::shared_ptr<const Snapshot> snapshot);
  // No copy can be made: whoever waits for one is dropped.
  void refuse();
  // A joiner that follows waits to hear what the state hashes to after `committed` turns.
  bool wants_digest(Turn committed) const;
  void give_digest(Turn committed, uint64_t digest);
  // A joiner that follows waits for a trial, and has all that this rank has.
  bool wants_trial() const;
  // Of the running turn. Nothing: this rank has no micro-batch to make one of.
  void give_trial(const std::optional<Trial>& trial);
  // The sums are complete and not yet committed to the buckets.
  void committing(Turn turn, bool is_flagged, std::vector<Bucket>& buckets);
  void entered(const Epoch& epoch);
  // Its connection has ended. What is queued is dropped by the next sweep().
  void lost(RankId joiner);
  void sweep();
  // Copies that are kept for a joiner.
  size_t copies() const;

 private:
  struct Waiting {
    FrameHeader header;
    std::vector<std::byte> payload;
  };
  struct Joiner {
    uint32_t attempt = 0;
    uint32_t request = 0;
    bool is_asking = false;  // where this rank stands
    Turn wanted;
    bool is_first = false;
    bool is_lost = false;
    std::optional<Turn> copied_at;  // turns in the copy that it is given
    bool is_copying = false;
    std::vector<Waiting> behind_copy;
    bool has_digest = false;
    bool has_trial = false;
    // Shared by the joiners that take the same copy and the frames that carry it. Nothing once the
    // joiner has all of it.
    std::shared_ptr<const Snapshot> snapshot;
  };
  void send(RankId id, Joiner& joiner, const FrameHeader& header,
            std::span<const std::byte> payload);
  void say_turn(RankId id, Joiner& joiner, Turn committed);
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
  bool is_memory_reserved_ = false;
  std::optional<Snapshot> memory_;
};

}  // namespace paceline::worker
