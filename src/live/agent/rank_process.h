// RankProcess: everything that the agent's host holds for one incarnation of a rank: its process,
// its socket, its two output pipes, its ring and the waiter at its death bell.
//
// Exists from a successful spawn until the process is reaped. Destroying it earlier ends the
// process group first.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <variant>

#include "core/agent/agent_event.h"
#include "live/agent/rank_environment.h"
#include "live/agent/rank_log.h"
#include "live/agent/rank_output.h"
#include "live/agent/rank_socket.h"
#include "live/agent/ring_reader.h"
#include "live/os/death_bell.h"
#include "live/os/process.h"

namespace paceline::agent {

struct HostSettings {
  std::string address;  // dotted IPv4 of this host
  Environment environment;
  std::string log_directory;  // empty: none
  int niceness = 0;           // of the ranks
};

class RankProcess {
 public:
  // `on_bell` runs on another thread. Call from a thread that lives as long as the agent.
  static std::variant<std::unique_ptr<RankProcess>, os::SpawnError> start(
      const Spawn& order, const HostSettings& settings, std::function<void()> on_bell);

  os::Process& process() { return process_; }
  RankSocket& socket() { return socket_; }
  RingReader& ring() { return ring_; }
  std::array<RankOutput, 2>& outputs() { return outputs_; }
  std::optional<RankLog>& log() { return log_; }
  // A rank that speaks has armed its bell.
  void has_spoken() { waiter_.look_again(); }

  // The ring's view with what the kernel knows of the process.
  RankView view() const;

 private:
  struct Parts {
    RingReader ring;
    RankSocket socket;
    std::array<RankOutput, 2> outputs;
    std::optional<RankLog> log;
    os::Process process;
  };
  RankProcess(Parts parts, std::function<void()> on_bell);

  // In this order: the process ends before the waiter is joined, the ring goes last.
  RingReader ring_;
  os::DeathBellWaiter waiter_;
  RankSocket socket_;
  std::array<RankOutput, 2> outputs_;
  std::optional<RankLog> log_;
  os::Process process_;
};

}  // namespace paceline::agent
