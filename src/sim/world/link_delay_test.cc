// Messages of one connection stay in order; those of two connections do not.
#include "sim/world/link_delay.h"

#include <gtest/gtest.h>

namespace paceline::sim {
namespace {

constexpr RankId rank(uint32_t slot) { return {SlotId(slot), Incarnation(1)}; }
constexpr Duration kUsual = Duration::microseconds(100);
constexpr Duration kMost = Duration::milliseconds(5);

// A little more than every microsecond, over many spans.
TEST(LinkDelay, OneConnection_NeverOvertakes) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const LinkDelay link(seed, kUsual, kMost);
    Instant last;
    for (Instant sent; sent < Instant() + Duration::milliseconds(100);
         sent = sent + Duration::nanoseconds(1'003)) {
      const Instant arrival = link.arrival(rank(1), rank(2), sent);
      ASSERT_GE(arrival, last) << "seed " << seed;
      ASSERT_GE(arrival - sent, kUsual);
      ASSERT_LE(arrival - sent, kUsual + kMost);
      last = arrival;
    }
  }
}

TEST(LinkDelay, TwoConnections_ArriveInEitherOrder) {
  const LinkDelay link(1, kUsual, kMost);
  size_t first = 0, second = 0;
  for (int64_t span = 0; span < 100; ++span) {
    const Instant sent = Instant() + kMost * span;
    const Instant a = link.arrival(rank(1), rank(3), sent);
    const Instant b = link.arrival(rank(2), rank(3), sent);
    first += a < b ? 1 : 0;
    second += b < a ? 1 : 0;
  }
  EXPECT_GT(first, 20u);
  EXPECT_GT(second, 20u);
}

}  // namespace
}  // namespace paceline::sim
