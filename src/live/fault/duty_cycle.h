// DutyCycle: when a process that is to be `factor` times as slow is stopped and continued.
//
// A share of all time it must stand still, 1 - 1/factor. Whoever sends the signals may be late with
// any of them, so each is timed from how long the process has really stood still so far, and the
// share holds however late the ones before were. What cannot be made up within a few periods is
// forgotten: a machine that was away for a second shall not stop the process for the next ones.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "base/time.h"

namespace paceline::fault {

class DutyCycle {
 public:
  static constexpr Duration kPeriod = Duration::milliseconds(4);

  // It has just been stopped. REQUIRES: factor > 1.
  DutyCycle(double factor, Instant now)
      : share_(1 - 1 / factor), began_(now), changed_(now), next_(now + part_of(kPeriod, share_)) {
    CHECK(factor > 1);
  }

  bool is_stopped() const { return is_stopped_; }
  Instant next_change() const { return next_; }

  // The other signal has just been sent.
  void change(Instant now) {
    is_stopped_ ? continued(now) : stopped(now);
    is_stopped_ = !is_stopped_;
    changed_ = now;
  }

 private:
  static constexpr Duration kMostDebt = kPeriod * 16;

  static Duration part_of(Duration whole, double part) {
    return Duration::nanoseconds(
        static_cast<int64_t>(static_cast<double>(whole.in_nanoseconds()) * part));
  }

  // The next stop begins so that it has the share again when it has lasted as long as planned.
  void continued(Instant now) {
    stood_ += now - changed_;
    const Duration planned = part_of(kPeriod, share_);
    next_ = began_ + part_of(stood_ + planned, 1 / share_) - planned;
    if (next_ > now + kMostDebt) begin_anew(now, kPeriod - planned);
    next_ = std::max(next_, now);
  }

  void stopped(Instant now) {
    const Duration owed = part_of(now - began_, share_) - stood_;
    next_ = now + part_of(owed, 1 / (1 - share_));
    if (next_ > now + kMostDebt) begin_anew(now, part_of(kPeriod, share_));
  }

  void begin_anew(Instant now, Duration until_next) {
    began_ = now;
    stood_ = Duration();
    next_ = now + until_next;
  }

  double share_;  // of all time, that it stands still
  Instant began_;
  Duration stood_;  // still, in all since began_
  bool is_stopped_ = true;
  Instant changed_;
  Instant next_;
};

}  // namespace paceline::fault
