// StepClock: where the training thread's time goes, turn by turn.
//
// The thread is in one phase at a time. take() closes a turn while the phase runs on: what it has
// lasted so far counts for the turn that ends, the rest for the next one.
#pragma once

#include <algorithm>

#include "base/time.h"
#include "core/model/sample.h"

namespace paceline::worker {

class StepClock {
 public:
  struct Totals {
    Duration compute, wait, longest_compute, longest_outside;
  };

  void enter(RankPhase phase, Instant now) {
    count(now);
    phase_ = phase;
    since_ = now;
  }
  Totals take(Instant now) {
    count(now);
    const Totals totals = totals_;
    totals_ = {};
    return totals;
  }

  RankPhase phase() const { return phase_; }
  Instant since() const { return since_; }

 private:
  void count(Instant now) {
    const Duration part = now - counted_until_;
    const Duration stay = now - since_;
    counted_until_ = now;
    if (phase_ == RankPhase::Compute) {
      totals_.compute += part;
      totals_.longest_compute = std::max(totals_.longest_compute, stay);
    } else if (phase_ == RankPhase::Wait) {
      totals_.wait += part;
    } else if (phase_ == RankPhase::Outside) {
      totals_.longest_outside = std::max(totals_.longest_outside, stay);
    }
  }

  RankPhase phase_ = RankPhase::Starting;
  Instant since_;
  Instant counted_until_;
  Totals totals_;
};

}  // namespace paceline::worker
