#include "live/agent/agent_daemon.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "base/str.h"
#include "live/agent/agent_shell.h"
#include "live/os/clock.h"
#include "live/os/loop.h"
#include "live/os/priority.h"
#include "live/os/signals.h"
#include "live/os/watch.h"
#include "live/rpc/agent_stream.h"

namespace paceline::agent {
namespace {

// How long the last messages may take to leave.
constexpr Duration kDrainLimit = Duration::milliseconds(500);
constexpr Duration kDrainPoll = Duration::milliseconds(5);

uint64_t random_instance() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

std::optional<uint32_t> parse_address(const std::string& text) {
  in_addr address{};
  if (::inet_pton(AF_INET, text.c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

class AgentDaemon {
 public:
  AgentDaemon(const AgentOptions& options, uint32_t address, int niceness)
      : host_name_(options.host_name),
        shell_(loop_,
               {.core = {.host_name = options.host_name,
                         .agent_instance = random_instance(),
                         .address = address},
                .host = {.address = options.address,
                         .environment = os::current_environment(),
                         .log_directory = log_directory(options),
                         .niceness = niceness},
                .send = [this](const HostEvent& event) { stream_.send(event); },
                .on_exit = [this](const std::string& reason) { exit_when_drained(reason); }}),
        stream_(loop_, rpc::RpcAddress::with_token_from_environment(options.controller),
                {.on_connected = [this] { shell_.controller_connected(); },
                 .on_command = [this](HostCommand c) { shell_.controller_said(c); },
                 .on_disconnected = [this](const std::string&) { shell_.controller_lost(); }}) {
    if (options.parent_descriptor >= 0) watch_parent(options.parent_descriptor);
  }

  void watch_signals(os::SignalDescriptor& signals) {
    signals_.emplace(loop_, signals.descriptor(), EPOLLIN, [this, &signals](uint32_t) {
      for (const int signal : signals.read())
        // Ctrl-C reaches every process of the terminal; with a parent, it is the parent's to judge.
        if (signal == SIGTERM || !parent_) shell_.parent_gone();
    });
  }

  void run() { loop_.run(); }

 private:
  static std::string log_directory(const AgentOptions& options) {
    if (options.log_directory.empty()) return {};
    return str(options.log_directory, "/", options.host_name);
  }

  void watch_parent(int descriptor) {
    ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
    parent_.emplace(loop_, descriptor, EPOLLIN, [this, descriptor](uint32_t) {
      std::array<char, 64> ignored;
      const ssize_t bytes = ::read(descriptor, ignored.data(), ignored.size());
      if (bytes > 0 || (bytes < 0 && (errno == EAGAIN || errno == EINTR))) return;
      parent_.reset();
      shell_.parent_gone();
    });
  }

  void exit_when_drained(const std::string& reason) {
    if (!reason.empty())
      std::fprintf(stderr, "pace agent %s: ends: %s\n", host_name_.c_str(), reason.c_str());
    drain_until(os::now() + kDrainLimit);
  }

  void drain_until(Instant limit) {
    if (!stream_.is_connected() || stream_.is_drained() || os::now() >= limit) {
      loop_.stop();
      return;
    }
    loop_.arm("drain", os::now() + kDrainPoll, [this, limit] { drain_until(limit); });
  }

  std::string host_name_;
  os::Loop loop_;
  AgentShell shell_;
  rpc::AgentStream stream_;  // before the shell goes, its callbacks end
  std::optional<os::Watch> parent_;
  std::optional<os::Watch> signals_;
};

}  // namespace

int run_agent(const AgentOptions& options) {
  constexpr int kUsage = 64;
  constexpr int kCannotRun = 70;
  const std::optional<uint32_t> address = parse_address(options.address);
  if (!address) {
    std::fprintf(stderr, "pace agent: --address %s: not an IPv4 address such as 10.0.0.7\n",
                 options.address.c_str());
    return kUsage;
  }
  Result<os::SignalDescriptor> signals = os::SignalDescriptor::open({SIGTERM, SIGINT});
  if (!signals) {
    std::fprintf(stderr, "pace agent: %s\n", signals.error().message.c_str());
    return kCannotRun;
  }
  const int niceness = os::raise_priority();
  AgentDaemon daemon(options, *address, niceness);
  daemon.watch_signals(*signals);
  daemon.run();
  return 0;
}

}  // namespace paceline::agent
