// Barrier: how the members of an epoch learn that all of them have come to the same point between
// two steps, whatever happens to members on the way.
//
// Barriers are numbered within a turn, from 1; a rank's level is the number of those it has come
// to. The members tell each other the lowest level, as a dissemination (vote_exchange.h): at hop h
// member i tells member (i + 2^h) mod n the lowest level of itself and the 2^h - 1 before it, each
// time that it has risen. After the last hop it is that of all, and the barriers up to there are
// passed.
//
// A turn begins with level 0 everywhere. An epoch that begins in mid-turn begins the dissemination
// anew with the levels as they are. They do not fall, so what one member has passed all who survive
// will pass, and who is lost is waited for no longer. A rank that still heals waits for nobody but
// counts its barriers like all others: once it is a member, it has come to those that its program
// has called. One that starts from a copy has come to all of that turn, for copies are made behind
// them.
//
// A member that has gone on, into the step or to the end, will never come to a further barrier. It
// tells all members so, once in an epoch, when it has heard of a level above its own.
//
// Pure; one object for a rank's life, told of its epochs and turns.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "core/model/epoch.h"
#include "core/rank/vote_exchange.h"

namespace paceline::rank {

// Of one epoch and turn. A refusal: its sender has gone on and stays at `level`.
struct BarrierMessage {
  uint32_t level = 0;
  uint8_t hop = 0;
  bool is_refusal = false;
  bool operator==(const BarrierMessage&) const = default;
};

struct OutgoingBarrier {
  MemberIndex to = kNoMember;
  BarrierMessage message;
};

class Barrier {
 public:
  // --- Where the rank stands ---
  struct Place {
    Turn turn;
    MemberIndex self = 0;
    MemberIndex members = 1;
  };
  // An epoch has begun, of which it is this member.
  void enter(const Place& place);
  // It has promised a higher epoch, or left: nothing is sent before enter().
  void stop();
  // A turn is committed. `is_open`: the step goes on, with another round.
  struct Next {
    Turn turn;
    bool is_open = false;
  };
  void committed(const Next& next);
  // Its state is a copy of another rank's, made at this turn.
  void loaded(Turn turn);

  // --- The training thread ---
  // Comes to the next barrier. REQUIRES: has not gone on.
  void arrive();
  // Goes on, into the step or to the end: it comes to no further barrier in this turn.
  void go_on();

  // --- Peers ---
  // A message of the running epoch and turn. False: no rank that keeps to the rules sends it.
  bool receive(MemberIndex from, const BarrierMessage& message);
  std::vector<OutgoingBarrier> take_outgoing();

  // --- What the rank waits for ---
  // Everybody has come to the barrier that this rank came to last.
  bool is_passed() const { return passed_ >= level_; }
  // A member that will never come to it.
  std::optional<MemberIndex> refused_by() const;

 private:
  // Of a rank that starts behind all barriers of its turn.
  static constexpr uint32_t kAllLevels = std::numeric_limits<uint32_t>::max();

  void restart();
  void tell();
  void refuse();

  Place place_;
  uint8_t hops_ = 0;
  bool is_running_ = false;
  bool has_gone_on_ = false;
  bool has_refused_ = false;
  uint32_t level_ = 0;
  uint32_t passed_ = 0;                       // the highest so far; stays so in later epochs
  std::array<uint32_t, kMaxHops> heard_{};    // the highest, by hop
  std::array<uint32_t, kMaxHops> told_{};     // the same
  std::map<MemberIndex, uint32_t> refusals_;  // by whom, and its level
  std::vector<OutgoingBarrier> outgoing_;
};

}  // namespace paceline::rank
