// Cluster: a job of real rank processes under an agent and a controller that live in the test: real
// sockets, rings and decisions (control::Membership), no daemon.
//
// The test's thread is the agent: run() serves the ranks until all that are left have said Done, or
// a deadline passes. Each rank is a forked process that trains a small model (trainer.h).
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/control/membership.h"
#include "live/os/descriptor.h"
#include "live/os/memfd.h"
#include "live/wire/rank_record.h"
#include "live/wire/rank_ring.h"
#include "live/worker/testing/trainer.h"

namespace paceline::worker::testing {

// Micro-batches in turn; lost ones to whoever holds least.
class EvenDivider final : public control::WorkDivider {
 public:
  std::vector<MemberIndex> regular(const std::vector<Member>& members,
                                   uint32_t micro_batches) const override;
  std::vector<MemberIndex> lost(const std::vector<Member>& members,
                                const std::vector<bool>& is_held,
                                const std::vector<uint32_t>& held_counts) const override;
};

class Cluster {
 public:
  struct Options {
    uint32_t ranks = 1;
    uint32_t micro_batches = 8;
    ReduceMode reduce = ReduceMode::Exact;
    TrainerOptions trainer;
  };
  explicit Cluster(const Options& options);
  ~Cluster();  // kills what is left

  // Serves until every rank has said Done or has ended. False: the deadline passed first.
  [[nodiscard]] bool run();
  // Called once per turn of the loop: what a test does in between.
  std::function<void()> on_turn;
  // The same, each until it returns true.
  std::vector<std::function<bool()>> on_moment;

  control::Membership& membership() { return membership_; }
  void carry_out();  // what membership wants, after a test has called it

  struct Rank {
    RankId id;
    pid_t process = -1;
    os::Descriptor socket;
    std::optional<os::SharedMemory> ring;
    std::optional<wire::Hello> hello;
    std::optional<wire::Done> done;
    std::vector<wire::PeerNotice> notices;
    std::vector<wire::HealNotice> heals;
    std::vector<wire::DigestNotice> compared;
    bool is_joiner = false;
    uint32_t heal_attempt = 0;
    Turn committed;
    EpochNumber epoch;
    int exit_status = 0;
    bool has_ended = false;
    const wire::RankRing& shared() const {
      return *static_cast<const wire::RankRing*>(ring->data());
    }
  };
  Rank& rank(uint32_t slot) { return ranks_[slot]; }
  void kill(uint32_t slot, int signal);
  // Starts a new process in the slot, which heals from two members and joins them by a plan.
  // REQUIRES: the one before has ended.
  void start_joiner(uint32_t slot);
  // The agent's side of the rank's socket is closed, as if the agent had ended.
  void hang_up(uint32_t slot);
  // Digests of the ranks that have said Done.
  std::set<uint64_t> digests() const;
  static constexpr uint64_t kToken = 0x1234'5678'9abc'def0;

 private:
  void spawn(uint32_t slot);
  void order_heal(Rank& rank);
  void announce_joiner(const Rank& rank);
  void serve(Rank& rank);
  void take(Rank& rank, const wire::RankRecord& record);
  void tell(Rank& rank, const wire::AgentRecord& record);
  void end(Rank& rank);
  bool is_done() const;

  Options options_;
  EvenDivider divider_;
  control::Membership membership_;
  std::vector<Rank> ranks_;
};

}  // namespace paceline::worker::testing
