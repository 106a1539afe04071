// TurnLog: what the ranks report of each committed turn, put together: one TurnCommitted per turn.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "core/model/incident.h"
#include "core/model/sample.h"

namespace paceline::control {

class TurnLog {
 public:
  // A turn is given out as it is when samples of one this much later are in: whoever has not
  // reported it will not (its rank has ended, or an earlier life of the controller took the
  // sample). Late samples are dropped.
  static constexpr Duration kPatience = Duration::seconds(1);

  explicit TurnLog(uint32_t micro_batches) : micro_batches_(micro_batches) {}

  // The turns that this sample completes.
  std::vector<TurnCommitted> add(const RankSample& sample) {
    std::vector<TurnCommitted> complete;
    if (sample.turn < first_open_) return complete;
    TurnCommitted& turn = open_[sample.turn];
    turn.turn = sample.turn;
    turn.step = sample.step;
    turn.epoch = std::max(turn.epoch, sample.epoch);
    turn.at = std::max(turn.at, sample.committed);
    turn.micro_batches += sample.micro_batches;
    turn.is_flagged = sample.is_flagged;
    turn.compute += sample.compute;
    turn.wait += sample.wait;
    newest_ = std::max(newest_, sample.committed);
    while (!open_.empty() && (open_.begin()->second.micro_batches >= micro_batches_ ||
                              newest_ - open_.begin()->second.at > kPatience)) {
      complete.push_back(open_.begin()->second);
      first_open_ = open_.begin()->first.next();
      open_.erase(open_.begin());
    }
    return complete;
  }
  // Every turn below `turn` has been given out.
  bool is_through(Turn turn) const { return first_open_ >= turn; }
  // What is left when the job ends.
  std::vector<TurnCommitted> take_rest() {
    std::vector<TurnCommitted> rest;
    for (const auto& [number, turn] : open_) rest.push_back(turn);
    open_.clear();
    return rest;
  }

 private:
  uint32_t micro_batches_;
  Turn first_open_;
  Instant newest_;
  std::map<Turn, TurnCommitted> open_;
};

}  // namespace paceline::control
