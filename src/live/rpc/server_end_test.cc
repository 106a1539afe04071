// Goal: whatever its streams and calls are doing, a server ends at once and each of them with it,
// and no peer that is slow, gone or many holds it up. Method: peers are bare stubs and their own
// queues, so that a test says what they do and what they leave out.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "live/rpc/controller_client.h"
#include "live/rpc/convert.h"
#include "live/rpc/loopback_for_test.h"

namespace paceline::rpc {
namespace {

// A second, and what a loaded machine adds.
constexpr Duration kEndLimit = Duration::seconds(3);
// As many as a server keeps open; see controller_calls.cc.
constexpr size_t kOpenCalls = 1000;

// Calls of Stop that are under way at the same time.
class StopCalls {
 public:
  StopCalls(const RpcAddress& controller, size_t count)
      : stub_(proto::Controller::NewStub(open_channel(controller.address))) {
    for (size_t i = 0; i < count; ++i) {
      Call& call = calls_.emplace_back();
      add_token(call.context, controller.token);
      call.context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
      call.context.set_wait_for_ready(true);
      call.reader = stub_->AsyncStop(&call.context, proto::StopRequest(), &events_);
      call.reader->Finish(&call.reply, &call.status, &call);
    }
  }
  ~StopCalls() {
    for (Call& call : calls_) call.context.TryCancel();
    events_.Shutdown();
    void* tag = nullptr;
    bool is_good = false;
    while (events_.Next(&tag, &is_good)) continue;
  }

  // How many have ended; looks for at most 10 ms.
  size_t ended() {
    void* tag = nullptr;
    bool is_good = false;
    const auto limit = std::chrono::system_clock::now() + std::chrono::milliseconds(10);
    while (events_.AsyncNext(&tag, &is_good, limit) == grpc::CompletionQueue::GOT_EVENT)
      codes_.push_back(static_cast<Call*>(tag)->status.error_code());
    return codes_.size();
  }
  // Without a turn of the loop.
  [[nodiscard]] bool wait_ended(size_t count) {
    const Instant deadline = os::now() + kLimit;
    while (ended() < count)
      if (os::now() > deadline) return false;
    return true;
  }
  size_t ended_with(grpc::StatusCode code) const {
    return static_cast<size_t>(std::count(codes_.begin(), codes_.end(), code));
  }

 private:
  struct Call {
    grpc::ClientContext context;
    proto::StopReply reply;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<proto::StopReply>> reader;
  };

  const std::unique_ptr<proto::Controller::Stub> stub_;
  grpc::CompletionQueue events_;
  std::list<Call> calls_;
  std::vector<grpc::StatusCode> codes_;
};

// Watches and never reads.
class BareWatcher {
 public:
  explicit BareWatcher(const RpcAddress& controller)
      : stub_(proto::Controller::NewStub(open_channel(controller.address))) {
    add_token(context_, controller.token);
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    context_.set_wait_for_ready(true);
    stream_ = stub_->Watch(&context_, proto::WatchRequest());
  }
  ~BareWatcher() { context_.TryCancel(); }

 private:
  std::unique_ptr<proto::Controller::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<proto::WatchEvent>> stream_;
};

class ServerEnd : public Loopback {
 protected:
  void end_server_in_time() {
    const Instant begun = os::now();
    server_.reset();
    EXPECT_LT(os::now() - begun, kEndLimit);
  }
  void expect_ping_answered() {
    run_beside([&] {
      const auto client = ControllerClient::connect(controller_, kLimit);
      EXPECT_TRUE(client.has_value()) << client.error().message;
    });
  }
};

TEST_F(ServerEnd, InTheMiddleOfReadingAndWriting_EndsAtOnce) {
  proto::AgentMessage message;
  *message.mutable_event() = to_proto(HostEvent(TagTrouble{.reporter = {}, .turn = Turn(1)}));
  for (int round = 0; round < 10 && !HasFailure(); ++round) {
    handler_ = RecordingHandler();
    listen();
    BareAgent busy(controller_);
    std::thread writing([&] {
      while (busy.write(message)) continue;
    });
    agent_ = connect_agent();
    EXPECT_TRUE(run_until([&] { return connected_ == round + 1 && handler_.said.size() > 50; }));
    // Both sides of both streams are busy, and messages wait in every queue.
    for (uint32_t i = 0; i < 300; ++i)
      for (const StreamId stream : handler_.opened)
        server_->send(stream, HostCommand(Desired{.sequence = i, .program = {}, .ranks = {}}));
    end_server_in_time();
    const size_t said = handler_.said.size();
    loop_.run_once(Duration());
    EXPECT_EQ(handler_.said.size(), said);  // what was posted before
    writing.join();
    agent_.reset();
  }
}

TEST_F(ServerEnd, WatcherNeverReads_IsClosedAndHoldsUpNobody) {
  listen();
  const BareWatcher frozen(controller_);
  ASSERT_TRUE(run_until([&] { return handler_.watchers.size() == 1; }));
  const std::vector<JobEvent> large = {Notice{.text = std::string(1 << 20, 'x')}};
  Duration longest;
  for (int i = 0; i < 80; ++i) {
    const Instant begun = os::now();
    server_->send(handler_.watchers[0], large);
    longest = std::max(longest, os::now() - begun);
  }
  EXPECT_LT(longest, kEndLimit);
  EXPECT_TRUE(run_until([&] { return handler_.watchers_closed == 1; }));
}

TEST_F(ServerEnd, WatcherNeverReads_ServerEndsWithWhatIsQueued) {
  listen();
  const BareWatcher frozen(controller_);
  ASSERT_TRUE(run_until([&] { return handler_.watchers.size() == 1; }));
  const std::vector<JobEvent> large = {Notice{.text = std::string(1 << 20, 'x')}};
  for (int i = 0; i < 10; ++i) server_->send(handler_.watchers[0], large);
  server_->close(handler_.watchers[0]);
  end_server_in_time();
}

TEST_F(ServerEnd, ManyCallsAtOnce_AllAnswered) {
  listen();
  StopCalls calls(controller_, kOpenCalls);
  ASSERT_TRUE(run_until([&] { return calls.ended() == kOpenCalls; }));
  EXPECT_EQ(calls.ended_with(grpc::StatusCode::OK), kOpenCalls);
  EXPECT_EQ(handler_.stops.size(), kOpenCalls);
}

TEST_F(ServerEnd, TooManyCalls_SomeAreRefusedAndTheRestAnswered) {
  listen();
  StopCalls calls(controller_, kOpenCalls + 50);
  ASSERT_TRUE(calls.wait_ended(50));
  EXPECT_EQ(calls.ended_with(grpc::StatusCode::RESOURCE_EXHAUSTED), 50u);
  ASSERT_TRUE(run_until([&] { return calls.ended() == kOpenCalls + 50; }));
  EXPECT_EQ(calls.ended_with(grpc::StatusCode::OK), kOpenCalls);
  EXPECT_EQ(handler_.stops.size(), kOpenCalls);
  expect_ping_answered();
}

TEST_F(ServerEnd, CallsOpen_AllAreEndedAndNoneActedOn) {
  listen();
  StopCalls calls(controller_, kOpenCalls + 1);
  ASSERT_TRUE(calls.wait_ended(1));  // is refused, so the others have arrived
  end_server_in_time();
  ASSERT_TRUE(calls.wait_ended(kOpenCalls + 1));
  EXPECT_EQ(calls.ended_with(grpc::StatusCode::UNAVAILABLE), kOpenCalls);
  loop_.run_once(Duration());
  EXPECT_TRUE(handler_.stops.empty());
}

TEST_F(ServerEnd, CallerVanishesInMidCall_OthersAreAnswered) {
  listen();
  std::unique_ptr<StopCalls> calls = std::make_unique<StopCalls>(controller_, 20);
  handler_.on_stop = [&] { calls.reset(); };
  ASSERT_TRUE(run_until([&] { return calls == nullptr; }));
  handler_.on_stop = nullptr;
  expect_ping_answered();
  end_server_in_time();
}

TEST_F(ServerEnd, StrangerSendsGarbage_OthersAreAnswered) {
  listen("127.0.0.1:0");
  const int stranger = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::string& listening = server_->address();
  address.sin_port =
      htons(static_cast<uint16_t>(std::stoi(listening.substr(listening.rfind(':') + 1))));
  ASSERT_EQ(::connect(stranger, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::string garbage(1 << 16, '\x5a');
  EXPECT_GT(::send(stranger, garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  expect_ping_answered();
  end_server_in_time();
  ::close(stranger);
}

TEST_F(ServerEnd, AddressTaken_IsOneErrorAndGrpcLogsNothing) {
  listen("127.0.0.1:0");
  ::testing::internal::CaptureStderr();
  const auto second = ControllerServer::listen(loop_, controller_, handler_);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::Unavailable);
  expect_ping_answered();
}

// gRPC's reactors start them, two for a process, and they wake each other for every message.
TEST_F(ServerEnd, AllKindsOfCalls_StartNoThreadOfReactors) {
  listen();
  agent_ = connect_agent();
  const BareWatcher watcher(controller_);
  ASSERT_TRUE(run_until([&] { return handler_.said.size() == 1 && !handler_.watchers.empty(); }));
  expect_ping_answered();
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    EXPECT_NE(name, "nexting_thread");
  }
}

}  // namespace
}  // namespace paceline::rpc
