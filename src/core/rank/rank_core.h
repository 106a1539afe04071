// RankCore: the rank's side of the commit and epoch protocol (docs/design/0002; rules by number).
//
// A rank computes the micro-batches of its share, reduces each bucket once its whole share is in
// it, votes when it holds every sum, and commits when every member of its epoch has voted. A
// Prepare of a higher epoch stops all of that between one effect and the next; Activate starts it
// again, with what the rank holds kept. This class decides all of it; moving bytes is its driver's
// business.
//
//   Joining --(level, and a donor has switched; or Activate)--> Member --(no member any more)-->
//   Left Member: running <--> promised (between Prepare and Activate)
//
// Invariants: nothing is begun, reduced, voted or committed while promised; a vote is cast once per
// (epoch, turn) and only with every sum of one epoch at hand; `held` belongs to turn `committed`.
//
// Pure and single-threaded. The driver calls one method, then carries out take_effects() in order.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "core/model/control_message.h"
#include "core/model/epoch.h"
#include "core/model/micro_batch.h"
#include "core/rank/vote_exchange.h"

namespace paceline::rank {

// --- Effects ---

// This rank's contribution to the bucket is final: reduce it in the running (epoch, turn).
struct StartReduction {
  BucketId bucket;
};
struct SendVote {
  MemberIndex to = kNoMember;
  Vote vote;
};
struct SendReport {
  PrepareReport report;
};
// Abort and quiesce every operation of epochs below `promised`. A sum that was complete before
// stays: the decision may still commit it (rule 18); it is void at the next EnterEpoch.
struct Quiesce {
  EpochNumber promised;
};
// Publish the sums of `turn`. Flagged: only the scales change, and the step is computed again.
// In both cases the accumulators start again from zero.
struct CommitTurn {
  Turn turn;
  Step step;
  bool is_flagged = false;
};
// What this rank has accumulated for the running turn is void.
struct DropContributions {};
// RankCore::epoch() is a new one; what was announced before is settled or void.
struct EnterEpoch {
  EpochNumber number;
};
// A bucket whose tag is not that of V micro-batches: a fault of the engine. The turn cannot be
// voted.
struct TagMismatch {
  BucketId bucket;
  uint64_t expected = 0;
  uint64_t found = 0;
};
// This rank is a member no longer.
struct Leave {};

using Effect = std::variant<StartReduction, SendVote, SendReport, Quiesce, CommitTurn,
                            DropContributions, EnterEpoch, TagMismatch, Leave>;

// --- The core ---

enum class Phase : uint8_t { Joining, Member, Left };

// How a message of (epoch, turn) relates to where this rank stands (rule 2).
enum class Relation : uint8_t {
  Old,      // refuse it
  Current,  // take it
  Newer,    // keep it, and what its sender sends after it, until this rank gets there
};

// Where a rank's state stands.
struct Position {
  Turn committed;
  Step step;
  uint32_t round = 0;  // rounds of `step` that were flagged
  bool operator==(const Position&) const = default;
};

class RankCore {
 public:
  struct Config {
    RankId self;
    uint64_t seed = 0;
    uint32_t buckets = 0;
    Position position;       // of the initial state: zero, or that of a checkpoint
    bool is_joiner = false;  // heals from members first, instead of starting with them
  };

  explicit RankCore(const Config& config);

  // --- The training thread ---
  // Opens the running turn: from here on the rank takes part in it. Idempotent until the next
  // commit.
  void begin_step();
  // The next micro-batch of the share, begun and so held (rule 3); none when there is nothing to
  // begin now. REQUIRES: the one begun before is accumulated in every bucket.
  std::optional<MicroBatch> begin_micro_batch();
  // The gradient of the micro-batch begun last is in the accumulator of `bucket`.
  // REQUIRES: once per (micro-batch, bucket).
  void accumulated(BucketId bucket);

  // --- Peers ---
  Relation relation(EpochNumber epoch, Turn turn) const;
  // REQUIRES for both: Relation::Current.
  void vote_received(const Vote& vote);
  // The reduction that StartReduction asked for is complete on this rank.
  void sum_reduced(BucketId bucket, uint64_t tag, bool is_flagged);

  // --- The controller ---
  void control(const ControlMessage& message);

  // --- A joiner's transfer (rule 21) ---
  // The registered state of a member has arrived. REQUIRES: Joining.
  void state_received(const Position& position);
  // The sums of one more committed turn have been applied. REQUIRES: Joining.
  void sums_applied(bool is_flagged);
  // The donor, having committed exactly what this rank has, is in `epoch`.
  void donor_entered(const Epoch& epoch);

  std::vector<Effect> take_effects();

  // --- Where it stands ---
  Phase phase() const { return phase_; }
  bool is_promised() const { return is_promised_; }
  const Epoch& epoch() const { return epoch_; }
  EpochNumber promised() const { return promised_; }
  const Position& position() const { return position_; }
  // The tag of a complete sum of the running step in this epoch: each micro-batch exactly once, but
  // for those that are skipped.
  uint64_t complete_tag() const {
    return complete_tags_.of(position_.step) - epoch_.skipped_tag(seed_, position_.step);
  }
  bool has_work() const { return phase_ == Phase::Member && !is_promised_ && !todo_.empty(); }
  bool is_open() const { return is_open_; }
  bool has_voted() const { return votes_.has_cast(); }
  bool is_held(MicroBatch m) const { return held_.contains(m); }
  size_t held_count() const { return held_.size(); }
  // Sum of the tags of all that this rank holds: the tag of its contribution.
  uint64_t held_tag() const;

  // Every bit of state that decides what it does next.
  void add_to(Digest& digest) const;

 private:
  struct Bucket {
    uint32_t accumulated = 0;  // how many of the held micro-batches are in it
    bool is_sent = false;
    bool has_sum = false;
    bool is_flagged = false;
    bool is_mismatched = false;
  };

  void take(const Announce& message);
  void take(const Prepare& message);
  void take(const Activate& message);
  void take(const Out& message);

  void settle();
  void send_final_buckets();
  void vote_if_complete();
  bool is_running() const { return phase_ == Phase::Member && !is_promised_ && is_open_; }
  bool holds_all_sums() const;
  void commit_turn();
  void advance(bool is_flagged);
  void enter(const Epoch& epoch);
  void clear_sums();
  void drop_contributions();
  // What the epoch gives this rank of the running step, but for what it skips.
  void take_regular_share();
  void take_lost_share();
  void take_unless_skipped(MicroBatch m);
  void leave();

  RankId self_;
  uint64_t seed_;
  Phase phase_;
  Epoch epoch_;                            // number 0: in none yet
  std::optional<MemberIndex> self_index_;  // in epoch_
  std::vector<MicroBatch> share_;          // its own, of every step begun in epoch_
  CompleteTags complete_tags_;             // for the micro-batches of epoch_
  EpochNumber promised_;                   // never below epoch_.number
  bool is_promised_ = false;               // between Prepare(promised_) and its decision
  std::optional<Epoch> planned_;           // the highest announced epoch above promised_
  Position position_;
  bool is_open_ = false;
  std::set<MicroBatch> todo_;  // of the share, not begun
  std::set<MicroBatch> held_;
  std::vector<Bucket> buckets_;
  VoteExchange votes_;
  std::vector<Effect> effects_;
};

}  // namespace paceline::rank
