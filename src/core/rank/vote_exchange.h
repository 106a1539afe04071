// VoteExchange: how the members of an epoch learn that all of them have voted for a turn.
//
// A dissemination barrier (Hensgen, Finkel, Manber 1988): with n members there are ceil(log2 n)
// hops; at hop h member i tells member (i + 2^h) mod n what it knows, once it has voted itself and
// has heard hop h-1. After the last hop everybody knows of every vote: n log n messages in all,
// where all-to-all takes n^2. What is told is idempotent (a minimum and a maximum), so it does not
// matter that some votes are merged twice when n is no power of two.
//
// Pure; one object per (epoch, turn).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/hash.h"
#include "core/model/control_message.h"

namespace paceline::rank {

inline constexpr uint8_t kMaxHops = 12;  // kMaxRanks members

struct OutgoingVote {
  MemberIndex to = kNoMember;
  Vote vote;
};

class VoteExchange {
 public:
  VoteExchange() = default;
  VoteExchange(EpochNumber epoch, Turn turn, MemberIndex self, MemberIndex members);

  // Casts this rank's own vote. REQUIRES: not cast before.
  void cast(EpochNumber carried);
  // A vote of a peer for this exchange's epoch and turn. A repeated hop is ignored.
  void receive(const Vote& vote);
  // The messages that have become due since the last call.
  std::vector<OutgoingVote> take_outgoing();

  bool has_cast() const { return has_cast_; }
  // Every member has voted.
  bool is_complete() const { return has_cast_ && merged_ == hops_; }
  // The epoch that all votes name; 0 when they name none or differ. REQUIRES: is_complete().
  EpochNumber carried() const;

  void add_to(Digest& digest) const;

 private:
  struct Range {
    EpochNumber low, high;
  };
  void merge(Range range);

  EpochNumber epoch_;
  Turn turn_;
  MemberIndex self_ = 0;
  MemberIndex members_ = 1;
  uint8_t hops_ = 0;
  bool has_cast_ = false;
  uint8_t merged_ = 0;  // hops heard and merged, in order
  uint8_t sent_ = 0;    // hops told
  Range known_{};
  std::array<std::optional<Range>, kMaxHops> heard_{};
};

}  // namespace paceline::rank
