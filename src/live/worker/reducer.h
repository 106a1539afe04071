// Reducer: runs the reductions of one (epoch, turn) over all buckets: it feeds the ring state
// machines with what arrives, does their arithmetic and sends what they say.
//
// begin() forgets whatever was under way; nothing of it is taken later, because its epoch is older
// or the turn before is complete on every member.
//
// Not thread-safe: under the job's mutex.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/collective/ring.h"
#include "core/model/epoch.h"
#include "live/worker/bucket.h"
#include "live/worker/frame.h"
#include "live/worker/incoming.h"
#include "live/worker/transport.h"

namespace paceline::worker {

class Reducer {
 public:
  // `buckets` must outlive the object.
  explicit Reducer(std::vector<Bucket>& buckets) : buckets_(buckets) {}

  struct Round {
    EpochNumber epoch;
    Turn turn;
    MemberIndex members = 1;
    MemberIndex self = 0;
    RankId next, previous;           // in the ring; nobody if there is one member
    uint64_t expected_tag = 0;       // of a complete sum
    Transport* transport = nullptr;  // none if there is one member
  };
  void begin(const Round& round);
  void stop() { round_.reset(); }

  // The own contribution, which has this tag, is final.
  void own_ready(BucketId bucket, uint64_t tag);
  // REQUIRES: the frame is of the running round.
  FrameVerdict take_chunk(RankId sender, const FrameHeader& header,
                          std::span<const std::byte> payload);

  struct Reduced {
    BucketId bucket;
    uint64_t tag = 0;
    bool is_flagged = false;
  };
  std::vector<Reduced> take_reduced() { return std::exchange(reduced_, {}); }
  // Buckets that have been sent and are not yet reduced.
  uint32_t running() const { return running_; }

 private:
  struct Work {
    collective::RingReduction ring;
    uint64_t own_tag = 0;
  };
  void run(BucketId bucket);
  void send(BucketId bucket, const collective::RingAction& action);

  std::vector<Bucket>& buckets_;
  std::optional<Round> round_;
  std::vector<Work> works_;
  std::vector<Reduced> reduced_;
  uint32_t running_ = 0;
};

}  // namespace paceline::worker
