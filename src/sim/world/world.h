// World: a job on a simulated cluster. The real ControllerCore, AgentCore and RankCore decide; this
// class carries their messages in virtual time, keeps the journal, and breaks things when told to.
//
// Every property of Safety is checked after each event. Same model, same faults: same digest.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/agent/agent_core.h"
#include "core/control/controller_core.h"
#include "core/model/micro_batch.h"
#include "sim/check/safety.h"
#include "sim/kernel/event_queue.h"
#include "sim/world/link_delay.h"
#include "sim/world/model.h"
#include "sim/world/simulated_rank.h"

namespace paceline::sim {

struct Outcome {
  bool is_finished = false;  // the job has ended, whatever its verdict
  std::optional<JobEnded> ended;
  std::optional<std::string> violation;
  std::vector<Incident> incidents;  // last state of each
  Goodput goodput;
  std::map<Step, uint32_t> skipped;  // micro-batches of committed steps that are in no sum
  Turn committed;
  Instant at;
  uint64_t events = 0;
  uint64_t digest = 0;
};

class World {
 public:
  explicit World(const Model& model);
  ~World();

  // --- Faults; each acts at the present moment ---
  void kill_rank(SlotId slot);
  void freeze_rank(SlotId slot);  // SIGSTOP of the process
  void thaw_rank(SlotId slot);
  void hang_rank(SlotId slot);
  void skip_on_rank(SlotId slot);  // a contribution; the rank goes on, is refused, and waits
  void slow_rank(SlotId slot, uint32_t percent);
  void poison(const Skipped& micro_batch);  // whoever computes it from now on ends by itself
  void corrupt_rank(SlotId slot);           // its state, unnoticed by itself
  void lose_host(uint32_t index,
                 Duration for_time);  // agent and ranks frozen in one go, then thawed
  void freeze_agent(uint32_t index, Duration for_time);  // its ranks go on
  void kill_agent(uint32_t index);
  void kill_controller();  // restarted from its journal
  void lose_connection(SlotId a, SlotId b);
  // No connection between ranks of these hosts holds or can be made until the path is mended. The
  // kernel says so at once, or nothing at all is heard of it.
  enum class Cut : uint8_t { Refused, Silent };
  void cut_path(uint32_t a, uint32_t b, Cut how = Cut::Refused);
  void mend_path(uint32_t a, uint32_t b);
  void stop_job();
  // Micro-batches of the running step that the slot's process has begun.
  uint32_t begun_by(SlotId slot);
  void set_recovery_mode(RecoveryMode mode, std::string scope);

  // Tells `observer` of every event that a watcher of the job would see.
  void set_observer(std::function<void(Instant, const JobEvent&)> observer) {
    observer_ = std::move(observer);
  }
  // Where every process stands, a line each.
  std::string describe() const;

  // Runs until the job has ended, a property is violated, or virtual time passes `limit`.
  Outcome run(Duration limit);

  // --- For the parts of the world ---
  EventQueue& queue() { return queue_; }
  const Model& model() const { return model_; }
  Safety& safety() { return safety_; }
  SimulatedRank* find(RankId rank);
  // What a sum of all micro-batches of `step` carries.
  uint64_t complete_tag_of(Step step) const { return tags_.of(step); }
  bool is_poison(const Skipped& micro_batch) const { return poison_.contains(micro_batch); }
  void end_by_itself(RankId rank) { end_process(rank, {.is_killed = true, .code = 11}); }
  void from_rank(const SimulatedRank& rank, agent::RankMessage message);
  void to_peer(RankId from, RankId to, PeerMessage message) {
    to_peer_at(queue_.now(), from, to, message);
  }
  // The rank has entered an epoch and connects to the members that it sends to.
  void connect_to_peers(const SimulatedRank& rank);
  // A member's contribution to a bucket is final. The last one of an epoch's members sends the sum
  // to all.
  void contribute(const Epoch& epoch, Turn turn, BucketId bucket, uint64_t tag);
  void donor_committed(RankId donor, Turn committed, bool is_flagged);
  void watch_donor(RankId donor, RankId joiner) { joiners_[donor].insert(joiner); }

 private:
  struct SimulatedHost;

  void start_agent(SimulatedHost& host);
  void to_peer_at(Instant sent, RankId from, RankId to, PeerMessage message);
  void agent_step(SimulatedHost& host, const agent::Event& event);
  void carry_out(SimulatedHost& host, agent::Effect effect);
  void spawn(SimulatedHost& host, const agent::Spawn& effect);
  struct End {
    bool is_killed = true;
    int32_t code = 9;  // signal or exit code
  };
  void end_process(RankId rank, End end);
  void arm_reading(SimulatedHost& host);
  void read_rings(SimulatedHost& host);
  void connect(SimulatedHost& host);
  void controller_step(const control::Event& event);
  void deliver(control::SendHost send);
  void observe(const JobEvent& event);
  void arm_controller();
  void start_controller();
  void tell_peers_of_silence(RankId rank);
  void tell_peers_of_loss(RankId rank);
  std::vector<SimulatedRank*> watchers_of(RankId rank);
  std::optional<Cut> cut_between(RankId a, RankId b);
  bool is_cut(RankId a, RankId b) { return cut_between(a, b).has_value(); }
  void tell_of_cut_paths(const SimulatedRank& rank, Duration silence, PeerTrouble::What what);
  SimulatedRank* owner_of(SlotId slot);
  void thaw_host(SimulatedHost& host);
  bool controller_is_finished() const;

  // A reduction under way: who is still missing.
  struct Reduction {
    size_t contributions = 0;
    uint64_t tag = 0;
  };

  Model model_;
  CompleteTags tags_;
  LinkDelay link_;
  EventQueue queue_;
  std::map<std::tuple<EpochNumber, Turn, BucketId>, Reduction> reductions_;
  Safety safety_;
  std::unique_ptr<control::ControllerCore> controller_;
  uint64_t controller_life_ = 0;
  std::optional<Instant> controller_timer_;
  std::vector<control::JournalRecord> journal_;
  std::vector<std::unique_ptr<SimulatedHost>> hosts_;
  // [slot][incarnation]; the dead stay.
  std::vector<std::vector<std::unique_ptr<SimulatedRank>>> ranks_;
  // Ended with their agent before the controller had heard of them: started again by the same id.
  // What they had under way still finds them, dead.
  std::vector<std::unique_ptr<SimulatedRank>> replaced_;
  std::map<RankId, std::set<RankId>> joiners_;
  std::map<uint32_t, Incident> incidents_;
  std::optional<JobEnded> ended_;
  Goodput goodput_;
  std::map<Step, uint32_t> skipped_;
  std::set<Skipped> poison_;
  std::function<void(Instant, const JobEvent&)> observer_;
  std::set<std::pair<RankId, RankId>>
      broken_;  // connections that lose what is sent, lower rank first
  std::map<std::pair<HostId, HostId>, Cut> cut_;  // paths, lower id first
  int64_t next_process_id_ = 1000;
};

}  // namespace paceline::sim
