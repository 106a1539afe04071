// TurnLog: what the ranks report of each committed turn, put together: one TurnCommitted per turn.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "core/model/epoch.h"
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

  // Turns that are committed in `epoch` lack what it skips.
  void note_skipped(const Epoch& epoch) {
    if (!epoch.skipped.empty()) skipped_[epoch.number] = epoch.skipped;
  }

  // False for a sample that is known: agents send the last ones again on a new stream.
  bool is_new(RankId rank, const RankSample& sample) const {
    if (sample.turn < first_open_) return false;
    const auto turn = open_.find(sample.turn);
    return turn == open_.end() || !turn->second.reporters.contains(rank);
  }

  // The turns that this sample completes. REQUIRES: is_new().
  std::vector<TurnCommitted> add(RankId rank, const RankSample& sample) {
    Open& open = open_[sample.turn];
    open.reporters.insert(rank);
    TurnCommitted& turn = open.turn;
    turn.turn = sample.turn;
    turn.step = sample.step;
    turn.epoch = std::max(turn.epoch, sample.epoch);
    turn.at = std::max(turn.at, sample.committed);
    turn.micro_batches += sample.micro_batches;
    turn.is_flagged = sample.is_flagged;
    turn.skipped = skipped_of(turn.epoch, turn.step);
    turn.compute += sample.compute;
    turn.wait += sample.wait;
    newest_ = std::max(newest_, sample.committed);
    std::vector<TurnCommitted> complete;
    while (!open_.empty() && is_through(open_.begin()->second.turn)) {
      complete.push_back(open_.begin()->second.turn);
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
    for (const auto& [number, open] : open_) rest.push_back(open.turn);
    open_.clear();
    return rest;
  }

 private:
  struct Open {
    TurnCommitted turn;
    std::set<RankId> reporters;
  };
  bool is_through(const TurnCommitted& turn) const {
    return turn.micro_batches + turn.skipped >= micro_batches_ || newest_ - turn.at > kPatience;
  }
  uint32_t skipped_of(EpochNumber epoch, Step step) const {
    const auto found = skipped_.find(epoch);
    if (found == skipped_.end()) return 0;
    return static_cast<uint32_t>(
        std::count_if(found->second.begin(), found->second.end(),
                      [step](const Skipped& each) { return each.step == step; }));
  }

  uint32_t micro_batches_;
  Turn first_open_;
  Instant newest_;
  std::map<Turn, Open> open_;
  // By epoch; only those that skip something, and an epoch skips nothing of steps before its own.
  std::map<EpochNumber, std::vector<Skipped>> skipped_;
};

}  // namespace paceline::control
