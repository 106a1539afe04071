// ControllerShell: drives the controller's state machine with the world.
//
// Every event takes the same way, run to its end on the loop's thread: step, take the effects,
// append and sync the journal, then send, then tell the watchers, then arm the one timer. If the
// journal refuses (another controller has taken it over) or fails, nothing is sent and the
// controller ends: what it has decided and not journaled has not happened.
//
// SIGKILL at any moment loses nothing: a new one with the same journal goes on, agents and watchers
// connect again by themselves.
//
// Threads: one, the loop's. Life: made by open(), which reads the journal; the world comes in as
// the loop runs; finished when the loop has been stopped, see outcome().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "live/controller/state_machine.h"
#include "live/controller/watch_board.h"
#include "live/os/loop.h"
#include "live/rpc/controller_server.h"
#include "live/store/journal.h"

namespace paceline::controller {

class ControllerShell final : public rpc::ControllerHandler {
 public:
  struct Options {
    std::string journal_path;
    rpc::RpcAddress address;
  };
  // Listens, then takes the journal over and restores from it: one that finds its address taken has
  // not fenced off the controller that holds it. `loop` must outlive the shell.
  static Result<std::unique_ptr<ControllerShell>> open(os::Loop& loop, const Options& options,
                                                       std::unique_ptr<StateMachine> machine);
  ~ControllerShell() override;

  // Where it listens, with the port that was chosen.
  const std::string& address() const;

  // A signal asks it to end: in order the first time, at once the second. Without a job it ends.
  void request_stop();

  // Why the loop was stopped. Success if the job is finished, or there never was one.
  const Status& outcome() const { return outcome_; }

  // --- What the world says (rpc::ControllerHandler)
  void agent_opened(rpc::StreamId stream) override;
  void agent_said(rpc::StreamId stream, HostEvent event) override;
  void agent_closed(rpc::StreamId stream) override;
  void watcher_opened(rpc::StreamId stream) override;
  void watcher_closed(rpc::StreamId stream) override;
  // Submitting the same job again succeeds and changes nothing; another one is refused.
  Status submit(JobSpec spec) override;
  Status stop(bool is_immediate) override;
  Status set_recovery(RecoveryMode mode, std::string scope) override;

 private:
  ControllerShell(os::Loop& loop, std::unique_ptr<StateMachine> machine);

  Status restore();
  void note_restored(const control::JournalRecord& record);
  void step(const control::Event& event);
  void carry_out();
  // Answers the machine's question for the newest checkpoint.
  void find_checkpoint(const std::string& directory);
  void tell_watchers(const std::vector<JobEvent>& events);
  void send_to_watchers();
  void send_all(rpc::StreamId watcher, std::span<const JobEvent> events);
  void arm_timer();
  // The id of a host that may be new; nullopt if its name could not be journaled.
  std::optional<HostId> host_of(const std::string& name);
  void host_connected(rpc::StreamId stream, const AgentHello& hello);

  // The end comes in steps: the machine is finished; agents go, or kLingerLimit passes; watchers
  // have read all and are closed, or kCloseLimit passes; the loop stops.
  void end_when_quiet();
  void close_watchers();
  void end(Status outcome);

  os::Loop& loop_;
  std::unique_ptr<store::Journal> journal_;
  std::unique_ptr<StateMachine> machine_;

  std::optional<JobSpec> job_;
  std::map<std::string, HostId> hosts_;
  std::map<HostId, rpc::StreamId> stream_of_host_;  // the newest stream of each host
  std::map<rpc::StreamId, HostId> host_of_stream_;
  std::set<rpc::StreamId> agents_;  // open streams, also those that have not said hello
  std::set<rpc::StreamId> watchers_;
  WatchBoard board_;
  std::vector<JobEvent> untold_;  // noted on the board, not yet sent to the watchers

  bool has_had_agents_ = false;
  bool has_stop_signal_ = false;
  bool is_lingering_ = false;
  bool is_closing_ = false;
  bool has_ended_ = false;
  Status outcome_;

  std::unique_ptr<rpc::ControllerServer> server_;  // last: it calls the rest
};

}  // namespace paceline::controller
