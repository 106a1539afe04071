// GoodputLedger: where the rank-time of a job goes. At every moment each of the job's working slots
// is in exactly one category, so the categories add up to wall time x slots.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/model/incident.h"

namespace paceline::control {

class GoodputLedger {
 public:
  explicit GoodputLedger(uint32_t slots) : slots_(slots) {}

  // What is true from `now` on.
  struct Moment {
    bool has_committed = false;  // the job has made its first commit
    uint32_t working = 0;        // members with micro-batches
    uint32_t healing = 0;        // processes that are on their way to be members
    bool is_repairing = false;
  };
  void advance(Instant now, Moment next) {
    if (last_) spend(now - *last_);
    if (!first_) first_ = now;
    last_ = now;
    moment_ = next;
  }

  // Computed in committed turns, and the part of it that was done a second time.
  void computed(Duration compute) { compute_ += compute; }
  void redone(Duration compute) { redone_ += compute; }

  Goodput total() const {
    const Duration useful = std::min(compute_, running_);
    const Duration redone = std::min(redone_, useful);
    return Goodput{.wall = last_ && first_ ? *last_ - *first_ : Duration(),
                   .useful = useful - redone,
                   .wait = running_ - useful,
                   .redone = redone,
                   .repair = repair_,
                   .heal = heal_,
                   .startup = startup_,
                   .empty_slot = empty_};
  }

 private:
  void spend(Duration wall) {
    if (!moment_.has_committed) {
      startup_ += wall * slots_;
      return;
    }
    const uint32_t working = std::min(moment_.working, slots_);
    const uint32_t healing = std::min(moment_.healing, slots_ - working);
    (moment_.is_repairing ? repair_ : running_) += wall * working;
    heal_ += wall * healing;
    empty_ += wall * (slots_ - working - healing);
  }

  uint32_t slots_;
  Moment moment_;
  std::optional<Instant> first_, last_;
  Duration compute_, redone_, running_, repair_, heal_, startup_, empty_;
};

}  // namespace paceline::control
