// RingReduction: one member's part in a pipelined ring all-reduce of one bucket.
//
// The n members form a ring; each sends only to the next. Chunk c starts at member c mod n with
// that member's own contribution and makes 2(n-1) hops, numbered from 1:
//
//   hops 1 .. n-1       reduce: whoever receives the partial sum adds its own contribution; the
//                       member at distance n-1 from the start so makes it the complete sum
//   hops n .. 2(n-1)    gather: the complete sum goes round until everybody has it
//
// Chunks travel independently, so all links are busy as long as there are at least n chunks; each
// member sends 2(n-1)/n of the bucket, the least that any all-reduce can do.
//
// A member whose own contribution is not final yet keeps the partial sums that reach it; they go on
// as soon as it is. Each chunk is received once per half and member: anything else is refused, so
// a repeated or stray message changes nothing.
//
// Memory: the driver has an accumulator (own contribution, never written here) and a sum buffer of
// the same shape. A chunk's place in the sum buffer holds first the partial sum and then, once the
// partial has left and the complete sum has come round, that one.
//
// Pure. The driver calls own_ready() once and received() per message, and carries out
// take_actions() in order.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/model/epoch.h"

namespace paceline::collective {

struct RingAction {
  enum class Kind : uint8_t {
    CopyOwn,   // sum = own contribution (a ring of one)
    AddOwn,    // sum += own contribution
    SendOwn,   // send the own contribution to the next member, as `hop`
    SendSum,   // send what is in the sum buffer to the next member, as `hop`
    Complete,  // the whole bucket is in the sum buffer; the last action
  };
  Kind kind = Kind::Complete;
  uint32_t chunk = 0;
  uint32_t hop = 0;
  bool operator==(const RingAction&) const = default;
};

class RingReduction {
 public:
  RingReduction() = default;
  // REQUIRES: self < members, chunks >= 1.
  struct Shape {
    MemberIndex members = 1;
    MemberIndex self = 0;
    uint32_t chunks = 1;
  };
  explicit RingReduction(const Shape& shape);

  // This member's contribution is final. REQUIRES: once.
  void own_ready();

  // A chunk from the member before. True: the driver stores it in the sum buffer before it carries
  // out the actions. False: refused, nothing has changed.
  [[nodiscard]] bool received(uint32_t chunk, uint32_t hop);

  std::vector<RingAction> take_actions() { return std::exchange(actions_, {}); }

  bool is_own_ready() const { return is_own_ready_; }
  bool is_complete() const { return complete_chunks_ == states_.size(); }

 private:
  enum class ChunkState : uint8_t {
    Idle,      // nothing has come, and the own contribution is not in it
    Partial,   // a partial sum waits for the own contribution
    Sent,      // the own contribution is in it and it has gone on
    Complete,  // the sum is here
  };

  uint32_t distance(uint32_t chunk) const;  // of this member from where the chunk starts
  void contribute(uint32_t chunk);
  void has_sum(uint32_t chunk);
  void act(RingAction::Kind kind, uint32_t chunk, uint32_t hop) {
    actions_.push_back({kind, chunk, hop});
  }

  MemberIndex members_ = 1;
  MemberIndex self_ = 0;
  bool is_own_ready_ = false;
  std::vector<ChunkState> states_;
  size_t complete_chunks_ = 0;
  std::vector<RingAction> actions_;
};

}  // namespace paceline::collective
