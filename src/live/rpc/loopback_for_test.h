// A controller's server and its peers in one process, for tests: server and agent share the test's
// loop; blocking client calls have a thread of their own; every wait has a condition and a
// deadline.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "live/os/clock.h"
#include "live/os/loop.h"
#include "live/rpc/agent_stream.h"
#include "live/rpc/channel.h"
#include "live/rpc/controller_server.h"
#include "paceline.grpc.pb.h"

namespace paceline::rpc {

inline constexpr Duration kLimit = Duration::seconds(20);

// Remembers what it is told.
class RecordingHandler final : public ControllerHandler {
 public:
  void agent_opened(StreamId stream) override { opened.push_back(stream); }
  void agent_said(StreamId, HostEvent event) override { said.push_back(std::move(event)); }
  void agent_closed(StreamId stream) override { closed.push_back(stream); }
  void watcher_opened(StreamId stream) override { watchers.push_back(stream); }
  void watcher_closed(StreamId) override { ++watchers_closed; }
  Status submit(JobSpec spec) override {
    specs.push_back(std::move(spec));
    if (specs.size() == 1) return {};
    return Failure{ErrorCode::Refused, "there is a job"};
  }
  Status stop(bool is_immediate) override {
    stops.push_back(is_immediate);
    if (on_stop) on_stop();
    return {};
  }
  Status set_recovery(RecoveryMode mode, std::string scope) override {
    modes.emplace_back(mode, std::move(scope));
    return {};
  }

  std::vector<StreamId> opened, closed, watchers;
  std::vector<HostEvent> said;
  std::vector<JobSpec> specs;
  std::vector<bool> stops;
  std::vector<std::pair<RecoveryMode, std::string>> modes;
  int watchers_closed = 0;
  std::function<void()> on_stop;
};

class Loopback : public ::testing::Test {
 protected:
  void listen(const std::string& address = random_local_address()) {
    Result<std::unique_ptr<ControllerServer>> made =
        ControllerServer::listen(loop_, {.address = address, .token = "right"}, handler_);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    server_ = std::move(made).value();
    controller_ = {.address = server_->address(), .token = "right"};
  }

  template <class Condition>
  [[nodiscard]] bool run_until(Condition condition) {
    const Instant deadline = os::now() + kLimit;
    while (!condition()) {
      if (os::now() > deadline) return false;
      loop_.run_once(Duration::milliseconds(10));
    }
    return true;
  }

  // Runs blocking code on a thread while the loop turns.
  template <class Function>
  void run_beside(Function function) {
    std::atomic<bool> is_done = false;
    std::thread thread([&] {
      function();
      is_done = true;
    });
    EXPECT_TRUE(run_until([&] { return is_done.load(); }));
    thread.join();
  }

  std::unique_ptr<AgentStream> connect_agent() {
    return std::make_unique<AgentStream>(
        loop_, controller_,
        AgentStream::Callbacks{
            .on_connected =
                [this] {
                  ++connected_;
                  EXPECT_TRUE(agent_->send(hello()));
                },
            .on_command = [this](HostCommand command) { commands_.push_back(std::move(command)); },
            .on_disconnected = [this](const std::string&) { ++disconnected_; }});
  }
  static HostEvent hello() {
    return AgentHello{.host_name = "host0", .agent_instance = 7, .address = 1, .ranks = {}};
  }

  os::Loop loop_;
  RecordingHandler handler_;
  RpcAddress controller_;
  std::unique_ptr<ControllerServer> server_;
  std::unique_ptr<AgentStream> agent_;
  std::vector<HostCommand> commands_;
  int connected_ = 0;
  int disconnected_ = 0;
};

// A bare stub that opens the agent's stream and then behaves as a test wants.
class BareAgent {
 public:
  explicit BareAgent(const RpcAddress& controller)
      : stub_(proto::Controller::NewStub(open_channel(controller.address))) {
    add_token(context_, controller.token);
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    context_.set_wait_for_ready(true);
    stream_ = stub_->Agent(&context_);
  }
  ~BareAgent() { context_.TryCancel(); }

  bool write(const proto::AgentMessage& message) { return stream_->Write(message); }

 private:
  std::unique_ptr<proto::Controller::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<proto::AgentMessage, proto::AgentCommand>> stream_;
};

}  // namespace paceline::rpc
