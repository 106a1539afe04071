// Goal: agents, watchers and commands reach a controller over real gRPC, and a peer that is frozen,
// rude or a stranger holds nobody up. Method: server and agent share the test's loop; blocking
// client calls have a thread of their own; every wait has a condition and a deadline.
#include "live/rpc/loopback_for_test.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "live/rpc/controller_client.h"
#include "paceline.grpc.pb.h"

namespace paceline::rpc {
namespace {

TEST_F(Loopback, Agent_SaysHelloAndTakesCommandsInOrder) {
  listen();
  agent_ = connect_agent();
  ASSERT_TRUE(run_until([&] { return handler_.said.size() == 1; }));
  EXPECT_EQ(handler_.said[0], hello());
  for (uint32_t i = 0; i < 200; ++i)
    server_->send(handler_.opened[0],
                  HostCommand(Desired{.sequence = i, .program = {}, .ranks = {}}));
  ASSERT_TRUE(run_until([&] { return commands_.size() == 200; }));
  for (uint32_t i = 0; i < 200; ++i) EXPECT_EQ(std::get<Desired>(commands_[i]).sequence, i);
}

TEST_F(Loopback, AgentSaysMuch_AllArrivesInOrder) {
  listen();
  agent_ = connect_agent();
  ASSERT_TRUE(run_until([&] { return handler_.said.size() == 1; }));
  for (uint64_t i = 0; i < 5000; ++i)
    ASSERT_TRUE(agent_->send(TagTrouble{.reporter = {}, .turn = Turn(i)}));
  ASSERT_TRUE(run_until([&] { return handler_.said.size() == 5001; }));
  for (uint64_t i = 0; i < 5000; ++i)
    EXPECT_EQ(std::get<TagTrouble>(handler_.said[i + 1]).turn, Turn(i));
  EXPECT_TRUE(run_until([&] { return agent_->is_drained(); }));
}

TEST_F(Loopback, ControllerRestarted_AgentConnectsAgainWithHello) {
  listen();
  agent_ = connect_agent();
  ASSERT_TRUE(run_until([&] { return handler_.said.size() == 1; }));
  server_.reset();
  ASSERT_TRUE(run_until([&] { return disconnected_ == 1; }));
  EXPECT_FALSE(agent_->send(hello()));
  listen(controller_.address);
  ASSERT_TRUE(run_until([&] { return handler_.said.size() == 2; }));
  EXPECT_EQ(connected_, 2);
  EXPECT_EQ(handler_.said[1], hello());
}

TEST_F(Loopback, StreamClosedByController_AgentConnectsAgain) {
  listen();
  agent_ = connect_agent();
  ASSERT_TRUE(run_until([&] { return handler_.said.size() == 1; }));
  server_->close(handler_.opened[0]);
  ASSERT_TRUE(run_until([&] { return handler_.said.size() == 2; }));
  EXPECT_EQ(handler_.closed, std::vector<StreamId>{handler_.opened[0]});
}

TEST_F(Loopback, AgentGone_HandlerHearsOfIt) {
  listen();
  agent_ = connect_agent();
  ASSERT_TRUE(run_until([&] { return handler_.said.size() == 1; }));
  agent_.reset();
  EXPECT_TRUE(run_until([&] { return handler_.closed.size() == 1; }));
}

TEST_F(Loopback, WrongToken_NeitherAgentNorClientGetsIn) {
  listen();
  controller_.token = "wrong";
  agent_ = connect_agent();
  run_beside([&] {
    const auto client = ControllerClient::connect(controller_, kLimit);
    ASSERT_FALSE(client.has_value());
    EXPECT_EQ(client.error().code, ErrorCode::Refused);
    EXPECT_EQ(client.error().message.find("right"), std::string::npos);
  });
  EXPECT_TRUE(handler_.opened.empty());
  EXPECT_EQ(connected_, 0);
}

TEST_F(Loopback, Commands_AnsweredWithTheHandlersResult) {
  listen("127.0.0.1:0");
  run_beside([&] {
    const auto client = ControllerClient::connect(controller_, kLimit);
    ASSERT_TRUE(client.has_value()) << client.error().message;
    const JobSpec spec{.name = "job", .program = {}, .checkpoint_directory = {}};
    EXPECT_TRUE((*client)->submit(spec).has_value());
    const Status second = (*client)->submit(spec);
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code, ErrorCode::Refused);
    EXPECT_TRUE((*client)->stop(true).has_value());
    EXPECT_TRUE((*client)->set_recovery(RecoveryMode::Observe, "straggler").has_value());
  });
  EXPECT_EQ(handler_.specs.size(), 2u);
  EXPECT_EQ(handler_.stops, std::vector<bool>{true});
  ASSERT_EQ(handler_.modes.size(), 1u);
  EXPECT_EQ(handler_.modes[0].second, "straggler");
}

TEST_F(Loopback, NobodyListens_ConnectTimesOut) {
  const auto client = ControllerClient::connect({.address = random_local_address(), .token = ""},
                                                Duration::milliseconds(50));
  ASSERT_FALSE(client.has_value());
  EXPECT_EQ(client.error().code, ErrorCode::Timeout);
}

TEST_F(Loopback, Watcher_SurvivesARestartAndEndsWithTheJob) {
  listen();
  std::vector<JobEvent> events;  // the watching thread's until it is joined
  std::atomic<size_t> event_count = 0;
  std::atomic<bool> is_done = false;
  std::thread watching([&] {
    const auto client = ControllerClient::connect(controller_, kLimit);
    ASSERT_TRUE(client.has_value());
    EXPECT_TRUE((*client)
                    ->watch({},
                            [&](const JobEvent& event) {
                              events.push_back(event);
                              ++event_count;
                            })
                    .has_value());
    is_done = true;
  });
  EXPECT_TRUE(run_until([&] { return handler_.watchers.size() == 1; }));
  const std::vector<JobEvent> first_life = {Notice{.text = "first life"},
                                            Notice{.text = "goes on"}};
  server_->send(handler_.watchers[0], first_life);
  EXPECT_TRUE(run_until([&] { return event_count == 2; }));
  server_.reset();
  listen(controller_.address);
  EXPECT_TRUE(run_until([&] { return handler_.watchers.size() == 2; }));
  const std::vector<JobEvent> last = {JobEnded{.reason = "done", .step = Step()}};
  server_->send(handler_.watchers[1], last);
  server_->close(handler_.watchers[1]);
  EXPECT_TRUE(run_until([&] { return is_done.load(); }));
  watching.join();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0], first_life[0]);
  EXPECT_EQ(events[1], first_life[1]);
  EXPECT_EQ(std::get<JobEnded>(events[2]).reason, "done");
}

TEST_F(Loopback, WatchCancelled_Returns) {
  listen();
  run_beside([&] {
    const auto client = ControllerClient::connect(controller_, kLimit);
    ASSERT_TRUE(client.has_value());
    std::thread watching(
        [&] { EXPECT_TRUE((*client)->watch({}, [](const JobEvent&) {}).has_value()); });
    (*client)->cancel_watch();
    watching.join();
  });
}

TEST_F(Loopback, FrozenAgent_IsClosedAndNeverBlocksTheLoop) {
  listen();
  const BareAgent frozen(controller_);  // never reads
  ASSERT_TRUE(run_until([&] { return handler_.opened.size() == 1; }));
  const HostCommand large = Desired{.sequence = 1,
                                    .program = {.arguments = {std::string(1 << 20, 'x')},
                                                .environment = {},
                                                .working_directory = {}},
                                    .ranks = {}};
  Duration longest;
  for (int i = 0; i < 80; ++i) {
    const Instant begun = os::now();
    server_->send(handler_.opened[0], large);
    longest = std::max(longest, os::now() - begun);
  }
  EXPECT_TRUE(run_until([&] { return handler_.closed.size() == 1; }));
  EXPECT_LT(longest, Duration::seconds(1));
}

TEST_F(Loopback, AgentSendsNonsense_IsClosed) {
  listen();
  BareAgent rude(controller_);
  ASSERT_TRUE(run_until([&] { return handler_.opened.size() == 1; }));
  rude.write(proto::AgentMessage());  // no event
  EXPECT_TRUE(run_until([&] { return handler_.closed.size() == 1; }));
  EXPECT_TRUE(handler_.said.empty());
}

TEST_F(Loopback, ServerEndsWithOpenStreamsAndCalls_AllAreEnded) {
  listen();
  const BareAgent bare(controller_);
  agent_ = connect_agent();
  ASSERT_TRUE(run_until([&] { return handler_.opened.size() == 2; }));
  std::thread calling([&] {
    // Not answered by this loop any more: ended by the server, or by the call's own limit.
    static_cast<void>(ControllerClient::connect(controller_, Duration::seconds(2)));
  });
  const Instant begun = os::now();
  server_.reset();
  EXPECT_LT(os::now() - begun, Duration::seconds(5));
  calling.join();
}

}  // namespace
}  // namespace paceline::rpc
