// RunProcesses: the controller and the agents of a `pace run`, kept alive.
//
// One that dies is started again, at most kMaxRestarts times in kRestartSpan. A controller that
// cannot write its journal is tried again for as long as it takes, at growing intervals: the ranks
// train without one, and a full disk may be given room. All of them end when this process does,
// however it ends: they die with the thread that started them, and see the end of file of a pipe
// that only this process can write.
//
// As a child subreaper (run_guard.h) this process also inherits whatever its ranks leave behind,
// and ends it. Single-threaded: the loop's thread, which must live as long as the process.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "live/os/descriptor.h"
#include "live/os/loop.h"
#include "live/os/process.h"

namespace paceline::cli {

class RunProcesses {
 public:
  static constexpr size_t kMaxRestarts = 5;
  static constexpr Duration kRestartSpan = Duration::seconds(10);
  static constexpr Duration kFirstPause = Duration::milliseconds(500);
  static constexpr Duration kLongestPause = Duration::seconds(30);

  struct Options {
    std::string controller_address;
    std::string token;
    std::string journal;
    uint32_t hosts = 1;
    std::string log_directory;
  };
  struct Callbacks {
    std::function<void(const std::string& host_name, pid_t process)> on_agent;
    std::function<void(pid_t process)> on_controller;
    std::function<void(const std::string& text)> on_note;
    // The controller cannot be kept alive.
    std::function<void(const std::string& reason)> on_lost;
    // None of them is alive any more.
    std::function<void()> on_all_ended;
  };

  RunProcesses(os::Loop& loop, Options options, Callbacks callbacks);
  // Ends everything that is left.
  ~RunProcesses();
  RunProcesses(const RunProcesses&) = delete;
  RunProcesses& operator=(const RunProcesses&) = delete;

  Status start();
  // Who ends from now on is not started again.
  void expect_ends();
  // Ends what is left, and what it has left. Bounded in time.
  void end_all();

 private:
  struct Daemon {
    std::string name{};  // "controller", "host0", ...
    bool is_controller = false;
    std::vector<std::string> arguments{};
    std::optional<os::Process> process{};
    std::deque<Instant> restarts{};
    Instant started{};
    Duration pause{};  // before the next try, of a controller without its journal
  };

  Status start(Daemon& daemon);
  void on_ended(Daemon& daemon);
  void start_later(Daemon& daemon, const std::string& what);
  bool may_restart(Daemon& daemon, Instant now);
  void tell_if_all_ended();

  os::Loop& loop_;
  const Options options_;
  const Callbacks callbacks_;
  std::vector<Daemon> daemons_;
  os::Descriptor life_read_;   // inherited by the daemons
  os::Descriptor life_write_;  // closed by the kernel when this process is gone
  bool is_ending_ = false;
};

}  // namespace paceline::cli
