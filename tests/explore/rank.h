// One explored rank: the real RankCore, the part of a driver that it needs, and ghost state from
// which S1, S2, S3 and S5 are checked.
//
// The driver: opens a step whenever there is one, carries out effects in order, adds up the
// contributions of a reduction. It takes every effect at once; what a slow driver would do later
// equals a later delivery of the event before.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config.h"
#include "core/rank/rank_core.h"
#include "message.h"

namespace paceline::explore {

RankId rank_id(size_t rank);

// What an event made a rank do, seen from outside.
struct RankSteps {
  std::vector<std::pair<size_t, Message>> to_ranks;
  std::vector<Message> to_controller;
  struct Commit {
    Turn turn;
    EpochNumber sums_epoch;  // in which the sums were reduced
  };
  std::vector<Commit> commits;
  bool has_left = false;
  std::string violation;  // of a property; empty: none

  bool is_visible() const {
    return !to_ranks.empty() || !to_controller.empty() || !commits.empty() || has_left ||
           !violation.empty();
  }
};

class Rank {
 public:
  Rank(size_t self, const Config& config, bool is_joiner);

  // --- Events ---
  RankSteps begin_micro_batch();
  // Of the micro-batch begun last, into the next bucket. REQUIRES: is_computing().
  RankSteps accumulate();
  // REQUIRES: RankCore::relation() says Current.
  RankSteps take_data(size_t from, const Message& message);
  RankSteps take_control(const ControlMessage& message);
  // A joiner that has committed what the donor had before its last turn, or exactly as much.
  RankSteps apply_sums_of(const Rank& donor);
  RankSteps learn_epoch_of(const Rank& donor);

  const rank::RankCore& core() const { return core_; }
  bool is_computing() const { return computing_.has_value(); }
  bool is_joining() const { return core_.phase() == rank::Phase::Joining; }
  rank::Relation relation(const Message& data) const;
  // The announced epoch that a vote cast now would name; only for a weakened rule.
  EpochNumber announced() const { return announced_; }

  uint64_t digest() const;

 private:
  struct Sum {
    uint8_t contributors = 0;  // ranks
    uint8_t micro_batches = 0;
    bool is_bad = false;  // something came twice, or was computed at other scales
    bool is_complete = false;
    uint64_t tag = 0;
  };
  RankSteps settle();
  void carry_out(const rank::Effect& effect, RankSteps& steps);
  void start_reduction(BucketId bucket, RankSteps& steps);
  void commit(const rank::CommitTurn& effect, RankSteps& steps);
  void absorb(size_t from, const Contribution& contribution);
  bool complete_sums();
  void check_promise(EpochNumber epoch, RankSteps& steps) const;
  bool is_flagged_turn() const;

  size_t self_;
  uint64_t steps_;
  bool has_overflow_;
  rank::RankCore core_;
  std::optional<MicroBatch> computing_;
  size_t computed_buckets_ = 0;                  // of computing_
  std::array<uint8_t, kBuckets> accumulated_{};  // micro-batches
  std::array<Turn, kBuckets> accumulated_turn_{};
  std::array<Sum, kBuckets> sums_{};
  // Where the effects so far have led; the core may be ahead while they are carried out.
  Epoch epoch_;
  EpochNumber promised_;
  Turn turn_;
  EpochNumber announced_;
};

}  // namespace paceline::explore
