// Membership: the controller's side of the commit and epoch protocol (docs/design/0002; rules by
// number). It issues epochs; it decides nothing about hosts, processes or health.
//
//   Idle --(a member is lost, a path is lost)--> Preparing --(all targets have reported)--> Idle
//     ^                                            |  nobody of an epoch in force is left to ask
//     +----------(one is seen again)---------- Waiting     (all known to have ended) --> Stopped
//
// An epoch *may be in force* if a rank may commit under it: the last decided one, and the one
// announced since. At most one is announced at a time: the next may follow once the last is settled
// (every member is known to be in it) or void (a decision came between).
//
// Pure. The driver calls one method, then carries out take_effects(): journal records first,
// synced, then the sends. A restarted controller is restore(all records in order), then resume().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "core/model/control_message.h"
#include "core/model/epoch.h"
#include "core/model/journal_record.h"

namespace paceline::control {

struct SendControl {
  RankId to;
  ControlMessage message;
};
// No member of an epoch that may be in force is left: only a copy outside the ranks can go on.
struct RollBack {
  EpochNumber epoch;
};
// A decision has been made; `members` are in the new epoch, `left_out` have been told Out.
struct Decided {
  Epoch epoch;
  std::vector<RankId> left_out;
  uint32_t micro_batches_given = 0;    // of the running step: no member holds them
  uint32_t micro_batches_dropped = 0;  // of these: reported as held, and not kept
};
// The announced epoch is in force alone.
struct Settled {
  EpochNumber number;
};

using MembershipEffect = std::variant<MembershipRecord, SendControl, RollBack, Decided, Settled>;

enum class Loss : uint8_t {
  Silent,  // not heard of; may come back, may still commit
  Ended,   // its process is known to have ended
};

// Who computes what. Supplied by the owner of the cost model.
class WorkDivider {
 public:
  virtual ~WorkDivider() = default;
  // For each of the micro_batches: the member that computes it in every step. Never kNoMember.
  virtual std::vector<MemberIndex> regular(const std::vector<Member>& members,
                                           uint32_t micro_batches) const = 0;
  // `owner` with kNoMember where a survivor holds the micro-batch; the others go to members, given
  // how many each holds already.
  virtual std::vector<MemberIndex> lost(const std::vector<Member>& members,
                                        const std::vector<bool>& is_held,
                                        const std::vector<uint32_t>& held_counts) const = 0;
};

class Membership {
 public:
  enum class Phase : uint8_t { New, Idle, Preparing, Waiting, Stopped };

  // `micro_batches` is V. `divider` must outlive this object.
  Membership(uint32_t micro_batches, const WorkDivider& divider);

  // --- Start and restart ---
  // The first epoch, or the first after a roll-back: numbers go on. REQUIRES: phase New or Stopped,
  // members not empty.
  void start(const std::vector<Member>& members);
  // The job is rolled back: no epoch is in force. start() follows.
  void stop();
  // Takes a journal record of an earlier life. REQUIRES: before any other call.
  void restore(const MembershipRecord& record);
  // After the last restore: repeats or prepares anew (rule 23). Believes nobody lost.
  void resume();

  // --- What happens to ranks ---
  void lost(RankId rank, Loss loss);  // rule 12
  void left(RankId rank);             // it has left in order, or has ended after that
  void seen_again(RankId rank);       // rule 12; of a Silent one
  void report(RankId from, const PrepareReport& report);  // rule 11
  // A rank has said that it is in `epoch`.
  void entered(RankId rank, EpochNumber epoch);
  // Live members have lost a connection, or a tag did not match: prepare with the same members.
  // `is_held_void`: nothing that was computed of the running turn counts.
  struct Reform {
    bool is_held_void = false;
  };
  void reform(Reform options);
  // From the next decision on nobody computes micro-batch `m` of `step`, unless a survivor holds it
  // by then. The caller reforms if no Prepare is under way. Nothing if it is known.
  void skip(Step step, MicroBatch m);
  // The next decision gives up the running step and ends the job. The caller reforms, as above.
  void stop_at_target() { is_stop_wanted_ = true; }
  // While `is_held_back` a Prepare may be complete, but is not decided: the caller waits to learn
  // what the decision must say.
  void hold_back(bool is_held_back);
  // What a member still waits for, again (a new stream to its host).
  void repeat(RankId rank);

  // --- Planned changes ---
  struct Plan {
    std::vector<Member> members;
    std::vector<MemberIndex> owner;
    bool is_last = false;
  };
  // Announces a planned epoch; its number is chosen here. False, and nothing happens, unless
  // can_announce().
  bool announce(Plan plan);
  bool can_announce() const { return phase_ == Phase::Idle && !planned_; }

  std::vector<MembershipEffect> take_effects();

  // --- Where it stands ---
  Phase phase() const { return phase_; }
  const Epoch& base() const { return base_; }  // the last decided or settled epoch
  const std::optional<Epoch>& planned() const { return planned_; }
  EpochNumber preparing() const { return preparing_; }
  bool may_be_in_force(RankId rank) const;  // is a member of an epoch that may be in force
  std::set<RankId> open_members() const;    // all of them
  // Some members of the planned epoch are in it, and wait for the others.
  bool is_partly_entered() const { return !entered_planned_.empty(); }
  // Targets that have not answered the running Prepare.
  std::vector<RankId> unanswered() const;

  void add_to(Digest& digest) const;

 private:
  EpochNumber take_number();
  void start_prepare();
  void wait_or_roll_back();
  void decide_if_complete();
  void decide();
  std::vector<const Epoch*> open_epochs() const;  // that may be in force
  bool has_ended(const Epoch& epoch) const;       // every member of it is known to have
  const Epoch& basis() const;
  bool is_at(const PrepareReport& report, Turn target) const;
  Epoch make_epoch(const std::vector<Member>& survivors, Turn target) const;
  std::vector<Skipped> skipped_at(const std::vector<Member>& survivors, Turn target) const;
  uint32_t dropped_by(const Epoch& decision) const;
  void send_decision(const std::vector<RankId>& left_out);
  void clear_prepare();
  void send(RankId to, ControlMessage message);

  uint32_t micro_batches_;
  const WorkDivider& divider_;
  Phase phase_ = Phase::New;
  EpochNumber next_number_{1};
  Epoch base_;
  std::optional<Epoch> planned_;
  std::set<RankId> entered_planned_;
  std::map<RankId, Loss> lost_;  // of members of epochs that may be in force
  EpochNumber preparing_;
  bool is_held_void_ = false;
  bool is_held_back_ = false;
  bool is_stop_wanted_ = false;
  std::set<Skipped> skips_;  // wanted, and decided before
  std::set<RankId> targets_;
  std::map<RankId, PrepareReport> reports_;
  std::vector<MembershipEffect> effects_;
};

}  // namespace paceline::control
