// NullRing: the all-reduce of all buckets of a step with nothing around it.
//
// The ring, its chunks and its arithmetic are those of libpaceline (RingReduction, Bucket). There
// are no epochs, votes, beats or records, and no thread of its own: a lost peer ends the process.
//
// On the wire: Header, then its payload_bytes. Host byte order; peers are on the same machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/collective/ring.h"
#include "live/worker/bucket.h"

namespace paceline::bench {

class NullRing {
 public:
  // Two connected stream sockets: to the next member of the ring and from the one before.
  struct Links {
    int next = -1;
    int previous = -1;
  };
  NullRing(MemberIndex members, MemberIndex self, Links links);

  // Sums the accumulators of all members into each bucket's sum. False: a peer is gone.
  bool reduce(std::vector<worker::Bucket>& buckets);
  // Returns when all members have come to it. False: a peer is gone.
  bool barrier();

 private:
  struct Header {
    uint32_t bucket, chunk, hop, payload_bytes;
  };

  static constexpr Header kToken{.bucket = UINT32_MAX, .chunk = 0, .hop = 0, .payload_bytes = 0};

  bool take_token();
  void start(std::vector<worker::Bucket>& buckets);
  void run(std::vector<worker::Bucket>& buckets, uint32_t bucket);
  void send(worker::Bucket& bucket, uint32_t index, const collective::RingAction& action);
  bool is_done() const { return complete_ == rings_.size() && sent_ == outgoing_.size(); }
  // Waits until something can be read, or written if there is something to write.
  bool exchange(bool wants_more);
  bool flush();
  bool fill();
  void take_frames(std::vector<worker::Bucket>& buckets);

  const MemberIndex members_, self_;
  const Links links_;
  std::vector<collective::RingReduction> rings_;  // of this step, one per bucket
  size_t complete_ = 0;
  std::vector<std::byte> outgoing_, incoming_;
  size_t sent_ = 0;   // of outgoing_
  size_t taken_ = 0;  // of incoming_
};

}  // namespace paceline::bench
