// Joiner: takes a rank's state from donors (heal.h), and what its first donor commits afterwards.
//
//   Idle --order--> Asking --all have said where they stand--> Receiving --all chunks good--> Ready
//     ^                ^------- a donor had passed the turn --------|                           |
//     +---- no donor is left, or they disagree, or the state does --+---------------------------+
//
// A donor that is lost before it has said all ends nothing while the other lives: the joiner asks
// that one alone, from the start; but once it has said that it is level, it says that it has
// failed.
//
// Under the job's mutex; the training thread loads the snapshot and takes the items in order.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/model/epoch.h"
#include "live/wire/rank_record.h"
#include "live/worker/heal.h"
#include "live/worker/incoming.h"
#include "live/worker/transport.h"
#include "live/worker/trial.h"

namespace paceline::worker {

class Joiner {
 public:
  struct Options {
    size_t state_bytes = 0;                       // what is registered here, and the scales
    bool is_tried = true;                         // counts only after a trial: exact mode
    size_t max_waiting_bytes = kMaxWaitingBytes;  // of sums
  };
  Joiner(Transport& transport, const Options& options) : transport_(transport), options_(options) {}

  void order(const wire::HealOrder& order, Instant now);
  FrameVerdict take(RankId donor, const FrameHeader& header, std::span<const std::byte> payload);
  void lost(RankId donor);
  // This rank is a member: the donors are needed no more.
  void close();
  // Closes the connections of attempts that are over.
  void sweep();
  std::vector<wire::HealNotice> take_notices() { return std::exchange(notices_, {}); }

  // A verified copy that the training thread has not taken yet.
  bool has_snapshot() const { return stage_ == Stage::Ready && !is_taken_; }
  // The copy is in place: what comes after it may be applied. Not from a new attempt's first word
  // on until its copy is.
  bool is_following() const { return stage_ == Stage::Ready && is_taken_; }
  const Snapshot& snapshot() const { return snapshot_; }
  void snapshot_taken();
  void fail(std::string detail);

  // What the donor has done since the copy, oldest first.
  struct Sum {
    BucketId bucket;
    uint32_t chunk = 0;
    uint64_t tag = 0;
    std::vector<std::byte> payload;
  };
  struct Commit {
    Turn turn;
    bool is_flagged = false;
    std::vector<Sum> sums;
  };
  // What the donor's state hashes to after `turn` committed turns.
  struct StateDigest {
    Turn turn;
    uint64_t digest = 0;
    bool operator==(const StateDigest&) const = default;
  };
  using Item = std::variant<Commit, Epoch, StateDigest, Trial>;
  const Item* front() const { return items_.empty() ? nullptr : &items_.front(); }
  void pop();
  // The state of this rank, after turns that it has applied itself, is the donor's.
  void checked() { is_checked_ = true; }
  bool is_checked() const { return is_checked_; }
  // What this rank has made of `trial`, which is forgotten if it is not in front any more.
  void answer(const Trial& trial, uint64_t digest, const Processor& own);
  // This rank has applied everything there is. Said once, if it is checked and tried.
  void level();

 private:
  enum class Stage : uint8_t { Idle, Asking, Receiving, Ready };
  struct Source {
    std::optional<Turn> stands_at;
    rank::Position position;
    uint32_t micro_batches = 0;
    uint64_t digest = 0;
    std::vector<uint64_t> checksums;
    size_t received = 0;  // checksums
    bool is_complete() const { return !checksums.empty() && received == checksums.size(); }
  };

  void ask(Turn turn);
  void choose_turn();
  bool take_manifest(Source& source, const FrameHeader& header, std::span<const std::byte> payload);
  bool take_chunk(RankId donor, const FrameHeader& header, std::span<const std::byte> payload);
  void ask_chunk(RankId donor, uint32_t chunk);
  // It has more sums than it can keep; what comes behind them waits on its donor's side.
  bool is_behind() const { return !items_.empty() && waiting_bytes_ > options_.max_waiting_bytes; }
  bool take_following(const FrameHeader& header, std::span<const std::byte> payload);
  void check_complete();
  void restart();
  void say_repaired();

  Transport& transport_;
  Options options_;
  Stage stage_ = Stage::Idle;
  uint32_t attempt_ = 0;
  uint32_t request_ = 0;
  uint32_t passed_ = 0;  // requests whose turn a donor had passed
  std::vector<std::pair<RankId, Source>> sources_;
  std::vector<RankId> over_;
  Snapshot snapshot_;
  std::vector<uint8_t> tries_;     // per chunk; kGood when it is there
  std::vector<uint32_t> put_off_;  // chunks to ask the second donor for once it has its copy
  size_t good_chunks_ = 0;
  std::vector<uint32_t> repaired_;  // chunks that were bad at first
  RankId repaired_by_;              // the donor that gave the last of them
  bool is_taken_ = false;
  bool is_checked_ = false;
  bool has_passed_trial_ = false;
  bool is_level_told_ = false;
  Commit partial_;
  size_t waiting_bytes_ = 0;  // of sums that are not applied yet
  std::deque<Item> items_;
  std::vector<wire::HealNotice> notices_;
};

}  // namespace paceline::worker
