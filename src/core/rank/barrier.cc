#include "core/rank/barrier.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace paceline::rank {

// --- Where the rank stands ---

void Barrier::enter(const Place& place) {
  CHECK(place.members >= 1 && place.self < place.members, place.self, " of ", place.members);
  const uint8_t hops = static_cast<uint8_t>(std::bit_width(place.members - 1u));
  CHECK(hops <= kMaxHops, place.members);
  if (place.turn != place_.turn) committed({.turn = place.turn, .is_open = has_gone_on_});
  place_ = place;
  hops_ = hops;
  is_running_ = true;
  restart();
}

void Barrier::stop() {
  is_running_ = false;
  restart();
}

void Barrier::committed(const Next& next) {
  place_.turn = next.turn;
  has_gone_on_ = next.is_open;
  level_ = passed_ = 0;
  restart();
}

void Barrier::loaded(Turn turn) {
  committed({.turn = turn, .is_open = false});
  level_ = passed_ = kAllLevels;
}

// What was heard and told belongs to one epoch and turn.
void Barrier::restart() {
  heard_.fill(0);
  told_.fill(0);
  has_refused_ = false;
  refusals_.clear();
  outgoing_.clear();
  tell();
}

// --- The training thread ---

void Barrier::arrive() {
  CHECK(!has_gone_on_);
  if (level_ != kAllLevels) ++level_;
  tell();
}

void Barrier::go_on() {
  has_gone_on_ = true;
  tell();
}

// --- Peers ---

bool Barrier::receive(MemberIndex from, const BarrierMessage& message) {
  CHECK(is_running_ && from < place_.members, from);
  if (message.is_refusal) {
    refusals_[from] = message.level;
    return true;
  }
  if (message.level == 0 || message.hop >= hops_) return false;
  if ((from + (1u << message.hop)) % place_.members != place_.self) return false;
  heard_[message.hop] = std::max(heard_[message.hop], message.level);
  tell();
  return true;
}

// All that has become due: what has risen, and a refusal.
void Barrier::tell() {
  if (!is_running_) return;
  uint32_t lowest = level_;
  for (uint8_t hop = 0; hop < hops_; ++hop) {
    if (lowest > told_[hop]) {
      told_[hop] = lowest;
      const uint32_t to = (place_.self + (1u << hop)) % place_.members;
      outgoing_.push_back({static_cast<MemberIndex>(to), {.level = lowest, .hop = hop}});
    }
    lowest = std::min(lowest, heard_[hop]);
  }
  passed_ = std::max(passed_, lowest);
  const uint32_t highest = *std::max_element(heard_.begin(), heard_.end());
  if (has_gone_on_ && highest > level_ && !has_refused_) refuse();
}

// True of every level, so it harms nobody who is not above this rank's.
void Barrier::refuse() {
  has_refused_ = true;
  for (MemberIndex to = 0; to < place_.members; ++to)
    if (to != place_.self) outgoing_.push_back({to, {.level = level_, .is_refusal = true}});
}

std::vector<OutgoingBarrier> Barrier::take_outgoing() { return std::exchange(outgoing_, {}); }

std::optional<MemberIndex> Barrier::refused_by() const {
  for (const auto& [member, level] : refusals_)
    if (level < level_) return member;
  return std::nullopt;
}

}  // namespace paceline::rank
