#include "core/rank/vote_exchange.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace paceline::rank {

VoteExchange::VoteExchange(EpochNumber epoch, Turn turn, MemberIndex self, MemberIndex members)
    : epoch_(epoch),
      turn_(turn),
      self_(self),
      members_(members),
      hops_(static_cast<uint8_t>(std::bit_width(static_cast<unsigned>(members) - 1u))) {
  CHECK(members >= 1 && self < members, self, " of ", members);
  CHECK(hops_ <= kMaxHops, members);
}

void VoteExchange::cast(EpochNumber carried) {
  CHECK(!has_cast_);
  has_cast_ = true;
  known_ = {carried, carried};
  while (merged_ < hops_ && heard_[merged_]) merge(*heard_[merged_]);
}

void VoteExchange::receive(const Vote& vote) {
  CHECK(vote.epoch == epoch_ && vote.turn == turn_);
  if (vote.hop >= hops_ || heard_[vote.hop]) return;
  heard_[vote.hop] = Range{vote.carried_low, vote.carried_high};
  while (has_cast_ && merged_ < hops_ && heard_[merged_]) merge(*heard_[merged_]);
}

// A message of hop h covers the sender and the 2^h - 1 members before it. It may cover more when
// later hops were heard early; that does no harm, since what is told is a minimum and a maximum of
// votes.
std::vector<OutgoingVote> VoteExchange::take_outgoing() {
  std::vector<OutgoingVote> outgoing;
  if (!has_cast_) return outgoing;
  while (sent_ < hops_ && sent_ <= merged_) {
    const uint32_t to = (self_ + (1u << sent_)) % members_;
    outgoing.push_back(
        {static_cast<MemberIndex>(to), Vote{epoch_, turn_, sent_, known_.low, known_.high}});
    ++sent_;
  }
  return outgoing;
}

EpochNumber VoteExchange::carried() const {
  CHECK(is_complete());
  return known_.low == known_.high ? known_.low : EpochNumber(0);
}

void VoteExchange::merge(Range range) {
  known_.low = std::min(known_.low, range.low);
  known_.high = std::max(known_.high, range.high);
  ++merged_;
}

void VoteExchange::add_to(Digest& digest) const {
  digest.add(has_cast_).add(merged_).add(sent_);
  digest.add(known_.low.value()).add(known_.high.value());
  for (uint8_t hop = merged_; hop < hops_; ++hop) {
    digest.add(heard_[hop].has_value());
    if (heard_[hop]) digest.add(heard_[hop]->low.value()).add(heard_[hop]->high.value());
  }
}

}  // namespace paceline::rank
