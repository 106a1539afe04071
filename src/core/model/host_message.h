// What the controller and a host's agent say to each other. Control is desired state: a Desired
// names everything that should run on the host, so a repeated or late one cannot act twice.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/model/control_message.h"
#include "core/model/sample.h"

namespace paceline {

// --- Controller to agent ---

// How to start a rank of the job; the agent adds what differs by rank (docs/design/0003).
struct Program {
  std::vector<std::string> arguments;                            // [0] is the executable
  std::vector<std::pair<std::string, std::string>> environment;  // added to the agent's own
  std::string working_directory;
  uint64_t job_token = 0;  // opens connections between ranks
  bool operator==(const Program&) const = default;
};

struct DesiredRank {
  RankId rank;
  uint32_t local_rank = 0;  // among the ranks of this host
  uint32_t world_size = 0;  // of the job when it started
  bool is_joiner = false;   // heals from members; otherwise it starts with them
  bool operator==(const DesiredRank&) const = default;
};

// Every rank that should be alive on this host. Sequence numbers rise by one per Desired to a host;
// an agent that has taken a higher one ignores it.
struct Desired {
  uint64_t sequence = 0;
  Program program;
  std::vector<DesiredRank> ranks;
  // Of a rank that is not named any more, from SIGTERM to SIGKILL. Zero: SIGKILL at once. The last
  // Desired counts, for who is being ended too.
  Duration end_grace = {};
  bool operator==(const Desired&) const = default;
};

struct ToRank {
  RankId rank;
  ControlMessage message;
  bool operator==(const ToRank&) const = default;
};

struct Donor {
  RankId rank;
  HostId host;
  Endpoint endpoint;
  bool operator==(const Donor&) const = default;
};

// The rank should take its state from these (in this order of preference).
struct Heal {
  RankId rank;
  uint32_t attempt = 0;
  std::vector<Donor> donors;
  bool operator==(const Heal&) const = default;
};

// finalize may return: nobody needs this rank any more.
struct Release {
  RankId rank;
  bool operator==(const Release&) const = default;
};

// End every rank, then the agent itself.
struct Shutdown {
  bool operator==(const Shutdown&) const = default;
};

using HostCommand = std::variant<Desired, ToRank, Heal, Release, Shutdown>;

// --- Agent to controller ---

struct RankPresence {
  RankId rank;
  Endpoint endpoint;  // port 0 until the rank has said hello
  EpochNumber epoch;
  Turn committed;
  Step step;
  int64_t process_id = 0;
  bool is_done = false;  // waits in finalize, or has left; with its digest
  uint64_t state_digest = 0;
  bool operator==(const RankPresence&) const = default;
};

// First message of a stream, also after either side was restarted: what is.
struct AgentHello {
  std::string host_name;
  uint64_t agent_instance = 0;  // differs for each life of the agent
  uint32_t address = 0;         // of the host, as ranks on other hosts reach it; IPv4, host order
  std::vector<RankPresence> ranks;
  bool operator==(const AgentHello&) const = default;
};

// A rank's process exists. A rank that links the library follows with RankUp.
struct RankStarted {
  RankId rank;
  int64_t process_id = 0;
  bool operator==(const RankStarted&) const = default;
};
struct RankStartFailed {
  RankId rank;
  std::string reason;
  bool is_permanent = false;  // not found, not executable: another try cannot help
  bool operator==(const RankStartFailed&) const = default;
};
// The rank has initialised the library and waits to be a member.
struct RankUp {
  RankId rank;
  Endpoint endpoint;
  int64_t process_id = 0;
  uint64_t state_bytes = 0;  // what a heal has to move
  bool operator==(const RankUp&) const = default;
};
struct FromRank {
  RankId rank;
  PrepareReport report;
  bool operator==(const FromRank&) const = default;
};
struct RankEntered {
  RankId rank;
  EpochNumber epoch;
  Turn committed;
  Step step;
  bool operator==(const RankEntered&) const = default;
};
// The kernel has begun to end the process (death bell), or it has ended.
struct RankEnded {
  RankId rank;
  enum class How : uint8_t { Dying, Exited, Killed } how = How::Dying;
  int32_t code = 0;                 // exit code or signal; 0 for Dying
  bool was_ended_by_agent = false;  // because Desired said so
  bool was_in_micro_batch = false;
  RankPhase phase = RankPhase::Starting;
  Turn committed;
  Step step;
  uint32_t begun = 0;  // micro-batches, since `committed`
  MicroBatch micro_batch;
  uint64_t micro_batch_seed = 0;        // of micro_batch, as the program was told
  std::vector<std::string> last_lines;  // of its output; bounded
  bool operator==(const RankEnded&) const = default;
};
// The rank has left in order, or waits in finalize.
struct RankDone {
  RankId rank;
  bool has_left = false;
  Turn committed;
  uint64_t state_digest = 0;
  bool operator==(const RankDone&) const = default;
};
// A joiner's transfer.
struct HealProgress {
  RankId rank;
  uint32_t attempt = 0;
  enum class What : uint8_t { Level, Failed, ChunkRepaired } what = What::Level;
  RankId donor;  // of Failed and ChunkRepaired: who is to blame
  std::string detail;
  bool operator==(const HealProgress&) const = default;
};
// A live rank's library cannot reach or hear a peer.
struct PeerTrouble {
  RankId reporter;
  RankId peer;
  enum class What : uint8_t { ConnectionLost, Silent, HeardAgain } what = What::ConnectionLost;
  bool operator==(const PeerTrouble&) const = default;
};
struct TagTrouble {
  RankId reporter;
  Turn turn;
  bool operator==(const TagTrouble&) const = default;
};
struct RankDigest {
  RankId rank;
  Step step;
  uint64_t digest = 0;
  bool operator==(const RankDigest&) const = default;
};
struct RankMetric {
  RankId rank;
  Step step;
  std::string name;
  double value = 0;
  bool operator==(const RankMetric&) const = default;
};
// How a line of output begins that is not the rank's own: where its threads were when its agent had
// to end it. The main thread comes first.
inline constexpr const char* kEvidencePrefix = "paceline: before its end: ";
struct OutputLine {
  RankId rank;
  bool is_stderr = false;
  std::string text;
  bool operator==(const OutputLine&) const = default;
};
// Everything measured since the last window; sent every window_interval, and so the agent's
// heartbeat.
struct Window {
  Instant at;      // the agent's clock
  Duration blind;  // how late the agent's own timer fired
  std::vector<RankView> views;
  std::vector<std::pair<RankId, RankSample>> samples;
  std::vector<RankMetric> metrics;
  bool operator==(const Window&) const = default;
};

using HostEvent =
    std::variant<AgentHello, RankStarted, RankStartFailed, RankUp, FromRank, RankEntered, RankEnded,
                 RankDone, HealProgress, PeerTrouble, TagTrouble, RankDigest, OutputLine, Window>;

inline constexpr Duration kWindowInterval = Duration::milliseconds(50);

}  // namespace paceline
