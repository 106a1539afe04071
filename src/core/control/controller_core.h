// ControllerCore: everything that the controller decides, as one state machine.
//
// It owns what is known of hosts and of the job: which slot runs where under which incarnation, who
// is starting, healing, working or standing by. Membership (its own object) issues the epochs;
// recovery detects and chooses; this class turns their verdicts into desired state for the hosts.
// One core serves one job; a controller daemon drives one per job.
//
// Contract: step() never blocks and no peer can make it fail. The driver then takes the effects and
// keeps this order: (1) append and sync the journal records, (2) send, (3) tell watchers. It arms
// one timer at next_deadline() and calls step(now, Tick{}).
//
// A restarted controller: restore() with every journal record in order, then step(now,
// Restarted{}).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "base/time.h"
#include "core/model/host_message.h"
#include "core/model/incident.h"
#include "core/model/job.h"
#include "core/model/journal_record.h"

namespace paceline::control {

// --- Events ---

struct Submit {
  JobSpec spec;
};
// A stream to the agent of a host is open and its hello has arrived. The host's id is the driver's:
// the same name always has the same id (journaled as HostNamed).
struct HostConnected {
  HostId host;
  AgentHello hello;
};
struct HostSaid {
  HostId host;
  HostEvent event;
};
// The stream to its agent is closed. Says nothing of its ranks.
struct HostDisconnected {
  HostId host;
};
struct StopRequested {
  bool is_immediate = false;
};
struct RecoveryModeSet {
  RecoveryMode mode = RecoveryMode::Act;
  std::string scope;  // a detector's name; empty: all
  bool operator==(const RecoveryModeSet&) const = default;
};
// The answer to Effects::find_checkpoint.
struct CheckpointFound {
  std::string path;  // empty: there is none
  Step step;
  Turn committed;
};
struct Restarted {};
struct Tick {};

using Event = std::variant<Submit, HostConnected, HostSaid, HostDisconnected, StopRequested,
                           RecoveryModeSet, CheckpointFound, Restarted, Tick>;

// --- Journal ---
//
// What is decided is journaled, what is measured is not: a restarted controller measures again. An
// incident is the record of a decision, so IncidentChanged is a record too; RecoveryModeSet is one
// as it came.

// Once more after a roll-back, with the checkpoint that the ranks continue from in the program's
// environment: what came before is over. Also once it is known that the program links the library.
struct JobSubmitted {
  JobSpec spec;
  bool operator==(const JobSubmitted&) const = default;
};
struct HostNamed {
  HostId host;
  std::string name;
  bool operator==(const HostNamed&) const = default;
};
// A slot gets a process: journaled before it is desired, so that an incarnation is used once. Or
// it is cold from here on: its last process, if it had any, gets no successor until it is needed.
struct SlotAssigned {
  RankId rank;
  HostId host;
  bool is_joiner = false;
  bool is_spare = false;
  bool is_cold = false;
  uint32_t restarts = 0;  // without progress; of the whole job if it does not link the library
  // How the process before this one has ended, if it did so by itself before its first commit.
  std::optional<int32_t> failed_with = {};
  bool operator==(const SlotAssigned&) const = default;
};
struct JobFinished {
  Verdict verdict = Verdict::Completed;
  int32_t exit_code = 0;
  uint64_t state_digest = 0;
  Step step;
  bool operator==(const JobFinished&) const = default;
};
// A computation of this micro-batch ended its rank by itself; two make it poison.
struct MicroBatchBlamed {
  Step step;
  MicroBatch micro_batch;
  RankId rank;
  uint64_t seed = 0;  // of the micro-batch
  std::string host_name = {};
  std::vector<std::string> last_lines = {};  // of the rank
  bool operator==(const MicroBatchBlamed&) const = default;
};
// One of its paths is dead, so it is left out for `pause`; zero: it has committed with the others
// since, and nothing is held against it any more.
struct HostKeptOut {
  HostId host;
  Duration pause;
  bool operator==(const HostKeptOut&) const = default;
};
// The job is to end in order: its next planned epoch is the last.
struct StopWanted {
  bool operator==(const StopWanted&) const = default;
};

using JournalRecord =
    std::variant<JobSubmitted, HostNamed, SlotAssigned, MembershipRecord, MicroBatchBlamed,
                 HostKeptOut, IncidentChanged, RecoveryModeSet, StopWanted, JobFinished>;

// --- Effects ---

struct SendHost {
  HostId host;
  HostCommand command;
};

struct Effects {
  std::vector<JournalRecord> journal;
  std::vector<SendHost> sends;
  std::vector<JobEvent> watch;                 // for watchers; may be dropped
  std::optional<std::string> find_checkpoint;  // the newest in this directory is wanted
};

class ControllerCore {
 public:
  ControllerCore();
  ~ControllerCore();

  void restore(const JournalRecord& record);
  void step(Instant now, const Event& event);
  Effects take_effects();
  std::optional<Instant> next_deadline() const;

  // The job has ended and every host has been told to shut down.
  bool is_finished() const;
  uint64_t digest() const;

 private:
  class State;  // core/control/controller_state.h
  std::unique_ptr<State> state_;
};

}  // namespace paceline::control
