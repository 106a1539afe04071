// LinkDelay: how long a message between two ranks takes. It differs by connection and changes as
// time passes, so that messages of different senders arrive in every order; on one connection none
// overtakes the one before it.
//
// Time is cut into spans; a connection has one delay per span, drawn from (seed, sender, receiver,
// span) alone, so nothing has to be remembered. What is sent in a span arrives no earlier than the
// last that could have been sent in the span before.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/hash.h"
#include "base/time.h"
#include "core/model/ids.h"

namespace paceline::sim {

class LinkDelay {
 public:
  // Most messages take `usual` to twice that, one in eight up to `usual` + `most`. With `most` zero
  // all take `usual`. REQUIRES: `most` is zero or at least `usual`.
  LinkDelay(uint64_t seed, Duration usual, Duration most)
      : seed_(mix64(seed ^ 0x6c69'6e6bull)), usual_(usual), span_(most) {
    CHECK(most == Duration() || most >= usual, most);
  }

  Instant arrival(RankId from, RankId to, Instant sent) const {
    if (span_ == Duration()) return sent + usual_;
    const uint64_t connection =
        mix64(seed_ ^ uint64_t{from.slot.value()} << 32 ^ uint64_t{to.slot.value()});
    const int64_t span = (sent - Instant()).in_nanoseconds() / span_.in_nanoseconds();
    const Instant begin = Instant() + span_ * span;
    return std::max(sent + in_span(connection, span), begin + in_span(connection, span - 1));
  }

 private:
  Duration in_span(uint64_t connection, int64_t span) const {
    const uint64_t drawn = mix64(connection ^ static_cast<uint64_t>(span));
    const Duration most_extra = drawn % 8 == 0 ? span_ : usual_;
    return usual_ + most_extra * static_cast<int64_t>((drawn >> 8) % 1024) / 1024;
  }

  uint64_t seed_;
  Duration usual_;
  Duration span_;  // no extra delay is longer
};

}  // namespace paceline::sim
