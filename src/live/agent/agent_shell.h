// AgentShell: drives AgentCore on one host: processes, sockets, pipes, rings and the clock.
//
// It does what the core asks for and tells it what happens; it decides nothing. The stream to the
// controller is its owner's: the shell is told when it is up, down, and what came through it.
//
// Single-threaded: everything runs on the loop's thread, which must live as long as the ranks (they
// die with it). The waiters at the death bells only post.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/agent/agent_core.h"
#include "live/agent/rank_process.h"
#include "live/os/loop.h"
#include "live/os/watch.h"

namespace paceline::agent {

class AgentShell {
 public:
  struct Options {
    Config core;
    HostSettings host;
    // Called while the stream is up.
    std::function<void(const HostEvent&)> send;
    // Every rank has ended; the agent should too. The shell does nothing more.
    std::function<void(const std::string& reason)> on_exit;
  };

  // `loop` must outlive the shell.
  AgentShell(os::Loop& loop, Options options);
  // Ends every rank that is left, and waits for it.
  ~AgentShell();

  void controller_connected();
  void controller_said(const HostCommand& command);
  void controller_lost();
  void parent_gone();

 private:
  void step(const Event& event);
  void carry_out(const Spawn& effect);
  void carry_out(const AskToEnd& effect);
  void carry_out(const EndGroup& effect);
  void carry_out(const TellRank& effect);
  void carry_out(const Send& effect);
  void carry_out(const Exit& effect);

  // A rank's process with what the loop watches of it; the watches go first.
  struct Watched {
    std::unique_ptr<RankProcess> process;
    std::optional<os::Watch> end;
    std::optional<os::Watch> socket;
    std::array<std::optional<os::Watch>, 2> outputs;
  };
  void watch_output(RankId rank, Watched& watched, size_t output);
  void read_socket(RankId rank, Watched& watched);
  void read_output(RankId rank, Watched& watched, size_t output);
  void socket_ready(RankId rank, uint32_t events);
  void bell_rang(RankId rank);
  void process_ended(RankId rank);
  void take_lines(RankId rank, RankProcess& process, const RankOutput& output,
                  const std::vector<std::string>& lines);
  void keep_evidence(RankId rank, RankProcess& process);
  void collect_measurements(RankId rank, RankProcess& process);
  void close_window();
  void renew_outputs();
  void arm_timers();

  os::Loop& loop_;
  Options options_;
  AgentCore core_;
  std::map<RankId, Watched> processes_;
  Instant window_due_;  // its timer
  RingsRead window_;    // what the next one will carry
  bool is_stepping_ = false;
  // What a carried out effect made happen, for the step after this one.
  std::vector<Event> pending_;
  // Posted functions hold it weakly: the shell may be gone when they run.
  std::shared_ptr<AgentShell*> self_;
};

}  // namespace paceline::agent
