// SimulatedRank: a worker process in virtual time. The real RankCore decides; compute, links and
// the program around it are modelled.
//
// A reduction is modelled by what it decides: each member's contribution (its tag) reaches every
// other member one link delay after its bucket is final; the sum is there when all have arrived.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "base/rng.h"
#include "core/agent/agent_event.h"
#include "core/rank/rank_core.h"
#include "sim/kernel/action.h"
#include "sim/world/model.h"

namespace paceline::sim {

class World;

// The sum of a bucket has arrived at a rank.
struct Sum {
  EpochNumber epoch;
  Turn turn;
  BucketId bucket;
  uint64_t tag = 0;
};
using PeerMessage = std::variant<Sum, Vote>;

class SimulatedRank {
 public:
  SimulatedRank(World& world, const DesiredRank& desired, HostId host, int64_t process_id);

  RankId id() const { return id_; }
  HostId host() const { return host_; }
  bool is_alive() const { return is_alive_; }
  bool is_frozen() const { return is_frozen_; }
  const rank::RankCore& core() const { return core_; }

  // --- What its surroundings do to it; each returns at once and nothing happens to the dead ---
  void say_hello();
  void take_order(agent::RankOrder order);
  void take_from_peer(RankId from, PeerMessage message);
  void kill() { is_alive_ = false; }
  void freeze();
  void thaw();
  void hang() {
    is_hung_ = true;
  }  // its training thread never comes back from the next micro-batch, or from its trial
  void skip() { is_skipping_ = true; }  // a bucket of the next one, and waits when it is refused
  void corrupt() { state_error_ = 1; }
  void slow_down(uint32_t percent) { slowness_percent_ = percent; }

  // A donor has committed a turn; or the joiner asks for its state.
  void donor_committed(RankId donor, Turn committed, bool is_flagged);
  // The connection to a donor is lost: who follows it says so, as it may be waited for.
  void donor_lost(RankId donor);
  void receive_state(uint32_t attempt);

  RankView view() const;
  std::vector<RankSample> take_samples() { return std::exchange(samples_, {}); }

 private:
  enum class Loop : uint8_t { Starting, InTrial, Computing, InFinish, Updating, Done };

  // Now, or when it thaws.
  template <class Callable>
  void enqueue(Callable action) {
    if (!is_alive_) return;
    if (is_frozen_) {
      frozen_actions_.emplace_back(std::move(action));
    } else {
      action();
    }
  }
  void settle();  // carries out the effects, then goes on with the loop
  void go_on();
  void set_loop(Loop loop);
  int64_t length_factor() const;
  void begin_turn();
  void compute_or_finish();
  void micro_batch_done(MicroBatch m);
  void finish_loop();
  bool deliver_inbox();
  rank::Relation deliver(const PeerMessage& message);
  Duration compute_time();
  void join_if_level();

  void carry_out(const rank::StartReduction& effect);
  void carry_out(const rank::SendVote& effect);
  void carry_out(const rank::SendReport& effect);
  void carry_out(const rank::Quiesce& effect);
  void carry_out(const rank::CommitTurn& effect);
  void carry_out(const rank::DropContributions& effect);
  void carry_out(const rank::EnterEpoch& effect);
  void carry_out(const rank::TagMismatch& effect);
  void carry_out(const rank::Leave& effect);

  World& world_;
  RankId id_;
  HostId host_;
  int64_t process_id_;
  bool is_joiner_;
  Rng rng_;
  rank::RankCore core_;
  bool is_alive_ = true;
  bool is_frozen_ = false;
  bool is_hung_ = false;
  bool is_skipping_ = false;
  Instant refused_since_;
  uint32_t slowness_percent_ = 100;
  uint64_t state_error_ = 0;  // what its state differs by from what it should be; a copy has it too
  Loop loop_ = Loop::Starting;
  Step step_begun_;
  MicroBatch micro_batch_;  // begun last
  std::deque<Action> frozen_actions_;
  // What has to wait, by sender; none is empty between events.
  std::map<RankId, std::deque<PeerMessage>> inbox_;
  std::map<BucketId, uint64_t> sums_;  // tags of complete sums; they survive a Prepare
  // The epoch of the effects that are being carried out: the core may be in the next one already.
  Epoch running_;
  std::optional<Heal> heal_;
  RankId donor_;
  std::vector<RankSample> samples_;
  Instant turn_begun_;
  Duration turn_compute_, longest_compute_;
  uint32_t turn_micro_batches_ = 0;
  Instant phase_since_;
  Instant frozen_at_;
};

}  // namespace paceline::sim
