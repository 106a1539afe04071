// Incident: one fault from first evidence to the commit that ends it; and JobEvent, what a watcher
// of a job is told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "core/model/host_message.h"
#include "core/model/ids.h"
#include "core/model/job.h"

namespace paceline {

enum class IncidentKind : uint8_t {
  Crash,
  HostLost,
  Hang,
  Straggler,
  SlowLink,
  Corruption,
  Poison,
  Imbalance,
  Unknown,
  DeadPath,  // two hosts that do not reach each other, though both live
};
// What happened to a hung rank, as far as its evidence tells.
enum class HangClass : uint8_t { None, Stopped, NeverEntered, Mismatched, Stuck, Traced };

enum class ActionKind : uint8_t {
  Wait,
  Rebalance,
  RestartInPlace,
  Shrink,
  SwapSpare,
  RollBack,
  IsolateHost,
  Stop,
  Skip,  // a micro-batch is left out
};

struct Alternative {
  ActionKind action = ActionKind::Wait;
  int64_t cost_rank_ms = 0;  // expected lost rank-milliseconds
  std::string why;           // the numbers behind the cost, or why it cannot be done
  bool operator==(const Alternative&) const = default;
};

struct Incident {
  uint32_t id = 0;
  IncidentKind kind = IncidentKind::Unknown;
  HangClass hang_class = HangClass::None;
  std::optional<RankId> rank;
  std::optional<HostId> host;
  Instant detected;  // by the controller
  // Every survivor has said that it has given up its collective: the decision.
  std::optional<Instant> aborted;
  std::optional<Instant> recovered;  // first commit reported after the repair
  // Micro-batches of the running step that were begun and have to be computed again: those of the
  // lost ranks, and what survivors throw away. What nobody had begun is no loss.
  uint32_t micro_batches_redone = 0;
  Step step;  // last step known to be committed when it was detected
  std::string evidence;
  ActionKind action = ActionKind::Wait;
  std::string reason;
  std::vector<Alternative> alternatives;  // the chosen one too
  bool was_only_observed = false;         // the recovery mode forbade the action
  bool operator==(const Incident&) const = default;
};

enum class Verdict : uint8_t { Completed, Failed, Stopped };

// --- What a watcher is told ---

struct JobStarted {
  uint32_t hosts = 0, ranks = 0, spares = 0, micro_batches = 0;
  ReduceMode reduce = ReduceMode::Exact;
  bool has_hot_spares = true;
  bool operator==(const JobStarted&) const = default;
};
// At most one per window: the newest commit that the controller knows.
struct JobProgress {
  Turn committed;
  Step step;
  EpochNumber epoch;
  uint32_t working = 0;  // members with micro-batches
  uint32_t members = 0;
  bool operator==(const JobProgress&) const = default;
};
// A committed turn, once per turn: the slowest rank's view of it.
struct TurnCommitted {
  Turn turn;
  Step step;
  EpochNumber epoch;
  Instant at;
  uint32_t micro_batches = 0;  // sum over the ranks that have reported it; V when all have
  bool is_flagged = false;
  uint32_t skipped = 0;    // micro-batches that its epoch leaves out
  Duration compute, wait;  // summed over the ranks
  bool operator==(const TurnCommitted&) const = default;
};
// Sent when it is detected and again whenever it changes; the last one counts.
struct IncidentChanged {
  Incident incident;
  bool operator==(const IncidentChanged&) const = default;
};
struct RankPlaced {
  RankId rank;
  HostId host;
  std::string host_name;
  int64_t process_id = 0;
  bool is_spare = false;
  bool operator==(const RankPlaced&) const = default;
};
struct JobEnded {
  Verdict verdict = Verdict::Completed;
  int32_t exit_code = 0;
  std::string reason;
  uint64_t state_digest = 0;
  Step step;
  bool operator==(const JobEnded&) const = default;
};
// Rank-time since the start, by what it went to; adds up to wall time x slots.
struct Goodput {
  Duration wall;
  Duration useful, wait, redone, repair, heal, startup, empty_slot;
  bool operator==(const Goodput&) const = default;
};
struct Notice {  // one line for people
  std::string text;
  bool operator==(const Notice&) const = default;
};

using JobEvent = std::variant<JobStarted, JobProgress, TurnCommitted, IncidentChanged, RankPlaced,
                              RankMetric, OutputLine, Goodput, Notice, JobEnded>;

}  // namespace paceline
