// Goal: a process stands still for the share of time that its factor asks for, however late the
// signals are. Method: virtual time with seeded lateness.
#include "live/fault/duty_cycle.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace paceline::fault {
namespace {

// Which part of `length` it stands still, with each signal up to `latest` late.
double stopped_share(double factor, Duration length, Duration latest) {
  Rng rng(11);
  Instant now;
  const Instant end = now + length;
  DutyCycle cycle(factor, now);
  Duration stood;
  while (cycle.next_change() < end) {
    const Instant at = std::max(now, cycle.next_change()) +
                       Duration::nanoseconds(rng.between(0, latest.in_nanoseconds()));
    if (cycle.is_stopped()) stood += at - now;
    cycle.change(at);
    now = at;
  }
  return static_cast<double>(stood.in_nanoseconds()) /
         static_cast<double>((now - Instant()).in_nanoseconds());
}

TEST(DutyCycle, SignalsOnTime_TheShareIsThatOfTheFactor) {
  for (const double factor : {1.1, 1.5, 3.0, 10.0})
    EXPECT_NEAR(stopped_share(factor, Duration::seconds(1), Duration()), 1 - 1 / factor, 0.01);
}

TEST(DutyCycle, LateSignals_ChangeNothingOfTheShare) {
  for (const double factor : {1.1, 1.5, 3.0, 10.0})
    EXPECT_NEAR(stopped_share(factor, Duration::seconds(1), Duration::microseconds(500)),
                1 - 1 / factor, 0.01);
}

TEST(DutyCycle, LongAbsence_IsNotMadeUpFor) {
  const Instant start;
  DutyCycle cycle(3, start);
  const Instant back = start + Duration::seconds(2);  // stopped all the while
  cycle.change(back);
  EXPECT_FALSE(cycle.is_stopped());
  EXPECT_LE(cycle.next_change(), back + DutyCycle::kPeriod);
  cycle.change(cycle.next_change() + Duration::seconds(2));  // and now it ran all the while
  EXPECT_TRUE(cycle.is_stopped());
  EXPECT_LE(cycle.next_change(), back + Duration::seconds(2) + DutyCycle::kPeriod * 2);
}

}  // namespace
}  // namespace paceline::fault
