// RunSession: one `pace run`, from the first process to the last line.
//
// Its loop owns everything; a watching thread, a calling thread and the injector's thread post what
// they have to say. Straight line: start the daemons, submit the job, show and record its events
// until JobEnded, wait for the daemons, write the report.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cli/report/run_record.h"
#include "cli/run_directory.h"
#include "cli/run_options.h"
#include "cli/run_processes.h"
#include "cli/run_view.h"
#include "cli/terminal.h"
#include "live/fault/injector.h"
#include "live/os/loop.h"
#include "live/os/signals.h"
#include "live/rpc/controller_client.h"

namespace paceline::cli {

class RunSession {
 public:
  explicit RunSession(RunOptions options);
  ~RunSession();

  // The exit code of the process (design section 10).
  int run();

 private:
  Status start();
  Status start_injector(JobSpec& spec);
  void watch_signals();
  void arm_time_limit();
  void on_signal(int signal);
  void stop_in_order(int code, const std::string& text);
  void stop_at_once();
  void on_event(const JobEvent& event);
  void on_struck(const fault::Struck& struck);
  void on_watch_ended(const Status& status);
  void refresh();
  void ask_to_stop(bool is_immediate);
  // Ends run(): at once, or once the daemons have ended by themselves.
  void finish();
  void fail(int exit_code, const std::string& reason);
  int exit_code() const;
  RunProcesses::Callbacks process_callbacks();
  void post(const os::Loop::Function& function);

  const RunOptions options_;
  Terminal terminal_;
  RunView view_;
  RunRecord record_;
  os::Loop loop_;
  std::optional<os::SignalDescriptor> signals_;
  std::optional<RunDirectory> directory_;
  std::unique_ptr<RunProcesses> processes_;
  std::unique_ptr<fault::Injector> injector_;
  std::unique_ptr<rpc::ControllerClient> client_;
  std::thread watching_;
  std::vector<std::thread> calling_;  // one for each time the user interrupts
  // Once it is told to stop: the exit code if there is nothing to come back to.
  std::optional<int> stop_code_;
  Instant stopping_since_;
  std::optional<int> failure_;  // exit code of a run that has no verdict
  bool is_finishing_ = false;
  std::atomic<bool> is_over_ = false;  // run() has left the loop; guards nothing else
};

}  // namespace paceline::cli
