// pace controller: the process that decides for one job.
#include <sys/epoll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "base/result.h"
#include "cli/exit_code.h"
#include "cli/verbs.h"
#include "live/controller/controller_shell.h"
#include "live/os/loop.h"
#include "live/os/priority.h"
#include "live/os/signals.h"
#include "live/rpc/endpoint.h"

namespace paceline::cli {
namespace {

struct ControllerFlags {
  std::string listen;
  std::string journal;
  int ready_fd = -1;
  int parent_fd = -1;
};

int code_of(const Error& error) {
  const bool is_taken = error.code == ErrorCode::Refused || error.code == ErrorCode::Unavailable;
  if (is_taken) return kExitNoController;
  return error.code == ErrorCode::Io ? kExitJournal : kExitBug;
}

int report(const Error& error) {
  std::fprintf(stderr, "pace controller: %s\n", error.message.c_str());
  return code_of(error);
}

// One line with the address: whoever has started us may now connect.
void say_ready(int descriptor, const std::string& address) {
  if (descriptor < 0) return;
  const std::string line = address + "\n";
  if (::write(descriptor, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    std::fprintf(stderr, "pace controller: nobody reads --ready-fd\n");
  ::close(descriptor);
}

int run_controller(const ControllerFlags& flags) {
  os::raise_priority();
  // Before gRPC has threads, so that all of them leave these signals to the loop.
  Result<os::SignalDescriptor> signals = os::SignalDescriptor::open({SIGTERM, SIGINT});
  if (!signals) return report(signals.error());

  os::Loop loop;
  Result<std::unique_ptr<controller::ControllerShell>> opened = controller::ControllerShell::open(
      loop,
      {.journal_path = flags.journal,
       .address = rpc::RpcAddress::with_token_from_environment(flags.listen)},
      controller::make_controller_core());
  if (!opened) return report(opened.error());
  controller::ControllerShell& shell = **opened;

  const bool has_parent = flags.parent_fd >= 0;
  loop.watch(signals->descriptor(), EPOLLIN, [&signals, &shell, has_parent](uint32_t) {
    for (const int signal : signals->read()) {
      // Ctrl-C reaches every process of the terminal; with a parent, it is the parent's to judge.
      if (signal == SIGTERM || !has_parent) shell.request_stop();
    }
  });
  // The parent keeps the other end open and writes nothing: ready means that it is gone, and with
  // it everybody who would want this job.
  if (has_parent) loop.watch(flags.parent_fd, EPOLLIN, [&loop](uint32_t) { loop.stop(); });

  say_ready(flags.ready_fd, shell.address());
  loop.run();
  return shell.outcome() ? kExitDone : code_of(shell.outcome().error());
}

}  // namespace

void add_controller(CLI::App& app, Chosen& chosen) {
  CLI::App* const verb = app.add_subcommand("controller", "Decides for one job (started by `run`)");
  const std::shared_ptr<ControllerFlags> flags = std::make_shared<ControllerFlags>();
  verb->add_option("--listen", flags->listen, "Address for agents and clients, as gRPC takes it")
      ->required();
  verb->add_option("--journal", flags->journal, "File that survives this process")->required();
  verb->add_option("--ready-fd", flags->ready_fd,
                   "Descriptor that gets one line with the address when it listens");
  verb->add_option("--parent-fd", flags->parent_fd,
                   "Descriptor of a pipe; ends at once when its other end is closed");
  verb->callback([flags, &chosen] { chosen = [flags] { return run_controller(*flags); }; });
}

}  // namespace paceline::cli
