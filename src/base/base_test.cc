// Goal: the promises that the rest of the tree leans on. Method: examples with known values.
#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/result.h"
#include "base/rng.h"
#include "base/strong_id.h"
#include "base/time.h"

namespace paceline {
namespace {

Result<int> half(int x) {
  if (x % 2 != 0) return Failure{ErrorCode::InvalidArgument, str(x, " is odd")};
  return x / 2;
}

Result<int> quarter(int x) {
  TRY_ASSIGN(const int h, half(x));
  return half(h);
}

TEST(Result, TryAssign_OnError_PassesItUp) {
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
}

TEST(ResultDeathTest, Value_OnError_PrintsTheMessage) {
  EXPECT_DEATH((void)half(3).value(), "3 is odd");
}

TEST(Rng, SameSeed_GivesTheSameSequence) {
  Rng a(7), b(7), c(8);
  const uint64_t first = a.next();
  EXPECT_EQ(first, b.next());
  EXPECT_NE(first, c.next());
}

TEST(Rng, Between_ReachesBothEnds) {
  Rng rng(1);
  bool low = false, high = false;
  for (int i = 0; i < 200; ++i) {
    const int64_t x = rng.between(-1, 1);
    ASSERT_TRUE(x >= -1 && x <= 1);
    low |= x == -1;
    high |= x == 1;
  }
  EXPECT_TRUE(low && high);
}

TEST(Digest, Order_Matters) {
  EXPECT_NE(Digest().add(1).add(2).value(), Digest().add(2).add(1).value());
  EXPECT_NE(Digest().add("ab").add("c").value(), Digest().add("a").add("bc").value());
}

TEST(Time, Arithmetic_KeepsUnits) {
  const Instant t = Instant::from_nanoseconds(5) + Duration::milliseconds(2);
  EXPECT_EQ((t - Instant::from_nanoseconds(5)).in_microseconds(), 2000);
  EXPECT_EQ(str(Duration::milliseconds(250)), "250 ms");
}

TEST(StrongId, Next_AddsOne) {
  using Id = StrongId<struct IdTag, uint8_t>;
  EXPECT_EQ(Id(4).next(), Id(5));
  EXPECT_EQ(str(Id(7)), "7");
}

}  // namespace
}  // namespace paceline
