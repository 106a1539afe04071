// Session: one rank's part in a job, as a driver of RankCore. It carries the core's effects out
// over the agent's socket, the peers' connections and the reductions, and feeds back what comes of
// them.
//
// Two threads use it, each with the job's mutex held: the training thread, which carries out itself
// what it causes, and the progress thread, which serves the sockets. The one thing that happens
// outside the mutex is the addition to an accumulator, bracketed by begin_accumulate() and
// end_accumulate(); if the contribution becomes void between the two, clearing the accumulator, and
// any reduction of it, waits for the second.
//
// Without an agent the job has this process as its only rank.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "core/model/job.h"
#include "core/rank/barrier.h"
#include "core/rank/rank_core.h"
#include "live/os/descriptor.h"
#include "live/worker/agent_link.h"
#include "live/worker/bucket.h"
#include "live/worker/checkpoint_writer.h"
#include "live/worker/donor.h"
#include "live/worker/joiner.h"
#include "live/worker/poller.h"
#include "live/worker/reducer.h"
#include "live/worker/ring_writer.h"
#include "live/worker/step_clock.h"
#include "live/worker/transport.h"
#include "live/worker/trial.h"

namespace paceline::worker {

// Steps between two comparisons of the state (0: none). A digest takes about 0.15 ms per MiB, so
// the larger the state, the more seldom: at most 0.15 ms of a step while the longest interval is
// not reached. A function of the size alone, which is the same on all ranks.
inline constexpr uint64_t kDigestInterval = 16;
inline constexpr uint64_t kMaxDigestInterval = 256;
inline constexpr uint64_t kDigestedBytesPerInterval = 16 << 20;
constexpr uint64_t digest_interval(uint64_t state_bytes) {
  return std::min(kMaxDigestInterval,
                  kDigestInterval * (1 + state_bytes / (kDigestedBytesPerInterval + 1)));
}

struct SessionOptions {
  RankId self{SlotId(0), Incarnation(1)};
  uint64_t token = 0;
  uint32_t address = 0;        // to listen on, host byte order; 0: loopback
  uint32_t micro_batches = 1;  // V, when there is no agent
  uint64_t seed = 0;
  bool is_seed_set = false;  // by the launcher: it is not the program's to choose
  ReduceMode reduce = ReduceMode::Exact;
  bool is_joiner = false;
  CheckpointOptions checkpoint = {};
  Processor processor = {};
  os::Descriptor agent_socket;  // not open: no agent
  os::Descriptor ring;          // of an agent
};

class Session final : private PeerHandler {
 public:
  static Result<std::unique_ptr<Session>> open(SessionOptions options);

  // Ends registration, and tells the agent that this rank waits to be a member.
  // `initial` is where its state stands. REQUIRES: at least one bucket; once.
  Status start(std::vector<Bucket> buckets, uint64_t state_bytes, const rank::Position& initial,
               Instant now);

  // --- The training thread ---
  void begin_step(Instant now);
  std::optional<MicroBatch> begin_micro_batch(Instant now);
  // The micro-batch begun last still lacks a bucket.
  bool is_in_micro_batch() const { return current_.has_value(); }
  bool is_accumulated(BucketId bucket) const { return current_->is_done[bucket.value()]; }
  // What a gradient is for: nothing, if the micro-batch has become void; for a trial, its digest.
  struct Use {
    bool is_added = false;
    bool is_digested = false;
  };
  // end_accumulate() in any case.
  [[nodiscard]] Use begin_accumulate();
  Bucket& bucket(BucketId id) { return buckets_[id.value()]; }
  void end_accumulate(BucketId bucket, uint64_t digest, Instant now);
  // Comes to the next barrier of this boundary. REQUIRES: no step is open.
  void arrive_at_barrier(Instant now);
  bool is_barrier_passed() const { return barrier_.is_passed(); }
  // The slot of a member that has gone on without the barrier that this rank waits in.
  std::optional<SlotId> barrier_refused_by() const;
  void enter_phase(RankPhase phase, Instant now);
  // A call of the program was out of order: others see it until one is in order again.
  void note_refusal(Instant now);
  void add_metric(std::string_view name, double value);
  void send_done(uint64_t state_digest);
  // Takes the thread that calls it as the training thread.
  void watch_this_thread();

  // --- Comparing the state, by the training thread ---
  // All members compare their state at this boundary, and this rank has not said yet what it has.
  bool wants_digest() const;
  void give_digest(uint64_t digest);

  // --- Healing, by the training thread ---
  // A joiner waits for a copy of this rank's state at this boundary.
  bool wants_copy() const;
  // Where this rank stands, and room for all of its state. Nothing if there is no room: whoever
  // waits is told.
  std::optional<Snapshot> begin_copy(size_t state_bytes);
  void give_copy(Snapshot snapshot);
  // A verified copy waits to be loaded into the registered memory.
  bool has_snapshot() const { return joiner_ && joiner_->has_snapshot(); }
  const Snapshot& snapshot() const { return joiner_->snapshot(); }
  // It cannot be loaded: the joiner asks anew.
  void refuse_snapshot(std::string why) { joiner_->fail(std::move(why)); }
  // Its registered parts are in place; `own_state` is the rest of it.
  void snapshot_loaded(std::span<const std::byte> own_state, Instant now);
  // The digest of what is now in the registered memory and the scales.
  void confirm_snapshot(uint64_t state_digest);
  // This rank has state, be it as a member or as a joiner that follows its donor.
  bool has_state() const { return is_loaded_ || core_->phase() != rank::Phase::Joining; }
  // Follows the donor: enters its epochs, and if `takes_sums` the sums of its next turn.
  struct Follow {
    bool takes_sums = false;
  };
  void follow_donor(Follow follow, Instant now);
  // A joiner's next micro-batch is one that its donor has computed from the same state.
  bool has_trial() const;

  // A joiner has asked, and there is no memory yet for what it will be given.
  bool wants_copy_memory() const { return donor_ && donor_->wants_memory(); }
  // Its pages are still to be touched, without the mutex; then it is given.
  std::optional<Snapshot> reserve_copy_memory(uint64_t registered_bytes);
  void give_copy_memory(Snapshot memory);

  // --- The progress thread ---
  Poller& poller() { return poller_; }  // wait() and wake() without the mutex
  RingWriter& ring() { return ring_; }  // the bell without the mutex
  Instant next_tick() const;
  void handle(std::span<const Poller::Event> events, Instant now);
  void tick(Instant now);

  // --- Where it stands ---
  bool is_started() const { return core_.has_value(); }
  bool has_agent() const { return agent_.has_value(); }
  const rank::RankCore& core() const { return *core_; }
  // V, as far as it is known.
  uint32_t micro_batches() const {
    return is_loaded_ && core_->epoch().number == EpochNumber(0) ? joiner_->snapshot().micro_batches
                                                                 : core_->epoch().micro_batches();
  }
  // The member of the lowest slot among those that have micro-batches in the running epoch.
  bool is_lead() const;
  size_t bucket_count() const { return buckets_.size(); }
  bool is_agent_gone() const { return agent_ && agent_->is_gone(); }
  bool is_released() const { return is_released_; }
  // The scales of all buckets: state of the library itself that all ranks share.
  std::vector<std::byte> own_state() const;
  // Whether something has happened since the last call that a blocked call may wait for.
  bool take_changed() { return std::exchange(has_changed_, false); }

 private:
  std::optional<Snapshot> allocate_copy(size_t state_bytes);
  Session(SessionOptions options, Poller poller, RingWriter ring);

  void start_alone();
  void settle(Instant now);
  void carry_out_all(Instant now);
  void carry_out(const rank::StartReduction& effect);
  void carry_out(const rank::SendVote& effect);
  void carry_out(const rank::SendReport& effect);
  void carry_out(const rank::Quiesce& effect);
  void carry_out(const rank::CommitTurn& effect);
  void carry_out(const rank::DropContributions& effect);
  void carry_out(const rank::EnterEpoch& effect);
  void carry_out(const rank::TagMismatch& effect);
  void carry_out(const rank::Leave& effect);
  void begin_round();
  void clear_contributions();
  void add_sample(const rank::CommitTurn& commit);
  void tell_agent(const wire::RankRecord& record);
  void take(const wire::AgentRecord& record);
  bool is_acceptable(const ControlMessage& message) const;
  void connect_to(MemberIndex index);
  void connect_to_all(MemberIndex self);
  void publish();
  int64_t run_queue_delay() const;

  FrameVerdict take(RankId sender, const FrameHeader& header,
                    std::span<const std::byte> payload) override;
  FrameVerdict take_vote(RankId sender, const FrameHeader& header);
  FrameVerdict take_barrier(RankId sender, const FrameHeader& header);
  void send_barriers();
  void connection_lost(RankId peer) override;
  void silent(RankId peer) override;
  void heard_again(RankId peer) override;
  void heal_lost(RankId peer) override;
  FrameVerdict take_heal(RankId sender, const FrameHeader& header,
                         std::span<const std::byte> payload);
  void apply(const Joiner::Commit& commit);
  bool compare(const Joiner::StateDigest& donors);
  bool is_answerable(const Trial& trial) const;
  bool is_trial_wanted() const;
  bool has_share() const;
  void sweep_heals();
  bool is_fellow(RankId peer) const;
  bool is_compared_here() const;

  struct Current {
    MicroBatch micro_batch;
    uint64_t seed = 0;
    bool is_void = false;  // dropped by a decision: what is left of it is ignored
    std::vector<bool> is_done;
    size_t done_count = 0;
    // A donor's, to be told to its joiners; or a joiner's, to be answered: that is void from the
    // start, because nobody needs its contribution.
    std::optional<Trial> trial = {};
    uint64_t digest = 0;  // of its gradient so far
  };
  void conclude_trial(const Current& done);
  std::optional<MicroBatch> begin_trial(Instant now);

  SessionOptions options_;
  Poller poller_;
  RingWriter ring_;
  StepClock clock_;
  std::optional<AgentLink> agent_;
  std::unique_ptr<Transport> transport_;
  std::vector<Bucket> buckets_;
  std::optional<rank::RankCore> core_;
  std::optional<Reducer> reducer_;
  rank::Barrier barrier_;
  Epoch running_;  // whose EnterEpoch has been carried out; the core may be one ahead in between
  Instant now_;    // of the call that is being carried out

  uint64_t digest_interval_ = 0;                 // steps between two comparisons; 0: none
  std::optional<Joiner::StateDigest> digested_;  // of this rank, where it was asked for last

  std::optional<StateDonor> donor_;
  std::optional<Joiner> joiner_;
  bool is_loaded_ = false;

  std::optional<Current> current_;
  bool is_accumulating_ = false;  // the training thread is in an accumulator
  bool is_clear_due_ = false;     // and that accumulator has become void meanwhile
  std::vector<BucketId> due_reductions_;

  std::set<RankId> lost_told_;  // peers whose loss the agent knows of, in this epoch
  bool is_released_ = false;
  bool has_changed_ = false;
  bool has_moved_ = false;  // frames that were kept may be current now

  Instant refused_since_;  // the program's calls are out of order; zero: they are not
  Instant turn_begun_;
  uint32_t begun_in_turn_ = 0;
  Instant promised_since_;
  Instant next_beat_;
  os::Descriptor schedstat_;  // of the training thread
  int64_t run_queue_delay_at_begin_ = 0;
};

}  // namespace paceline::worker
