// What an agent is told and what it asks for: the events and effects of AgentCore, as plain values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/time.h"
#include "core/model/host_message.h"

namespace paceline::agent {

// --- Events ---

struct CommandReceived {
  HostCommand command;
};
// A stream to the controller is open; nothing has been sent on it yet. Commands of an older stream
// do not arrive after it.
struct StreamUp {};
struct StreamDown {};

struct ProcessSpawned {
  RankId rank;
  int64_t process_id = 0;
};
struct SpawnFailed {
  RankId rank;
  std::string reason;
  bool is_permanent = false;
};

// A record of a rank, in the form in which the controller gets it. The core fills in what only the
// agent knows (process id, the host's address).
using RankMessage = std::variant<RankUp, FromRank, RankEntered, RankDone, HealProgress, PeerTrouble,
                                 TagTrouble, RankDigest>;
struct RankSaid {
  RankMessage message;
};

// The kernel has begun to end the process. `view` is the last word of its ring.
struct BellRang {
  RankId rank;
  RankView view;
};
// The process has ended and is reaped. Nothing of this rank follows: its output, its records and
// its ring have been read to the end before.
struct ProcessEnded {
  RankId rank;
  bool is_killed = false;  // by a signal
  int32_t code = 0;        // exit code, or the signal
  RankView view;
};
struct OutputRead {
  RankId rank;
  bool is_stderr = false;
  std::vector<std::string> lines;
};
// All rings have been read, at AgentCore::next_reading(). `blind`: how late that was.
struct RingsRead {
  Duration blind;
  std::vector<RankView> views;
  std::vector<std::pair<RankId, RankSample>> samples;
  std::vector<RankMetric> metrics;
};
// The process that this agent lives for has ended.
struct ParentGone {};
struct Tick {};

using Event =
    std::variant<CommandReceived, StreamUp, StreamDown, ProcessSpawned, SpawnFailed, RankSaid,
                 BellRang, ProcessEnded, OutputRead, RingsRead, ParentGone, Tick>;

// --- Effects ---

// Answered by ProcessSpawned or SpawnFailed.
struct Spawn {
  DesiredRank rank;
  Program program;
  uint32_t local_world_size = 0;  // ranks of the job on this host
};
// SIGKILL to its process group. Nobody waits for it: ProcessEnded follows in its own time.
struct EndGroup {
  RankId rank;
  // The controller wants this rank ended, perhaps because it hangs: where is worth keeping.
  bool is_evidence_wanted = false;
};
// SIGTERM to its process group: the program may save what it wants to keep. EndGroup follows if it
// takes too long.
struct AskToEnd {
  RankId rank;
};
using RankOrder = std::variant<Announce, Prepare, Activate, Out, Heal, Release>;
struct TellRank {
  RankId rank;
  RankOrder order;
};
// To the controller, on the stream that is open.
struct Send {
  HostEvent event;
};
// Every rank has ended, or will not within reason: the agent ends.
struct Exit {
  std::string reason;  // empty: it was told to
};

using Effect = std::variant<Spawn, AskToEnd, EndGroup, TellRank, Send, Exit>;

}  // namespace paceline::agent
