// Goal: the shell keeps the contract of the state machine: journal, then sends, then watchers; the
// same ids after a restart; nothing after a lost journal; an end that everybody hears of. Method: a
// scripted machine, and once the real one; real gRPC and a real journal on one loop.
#include "live/controller/controller_shell.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "live/os/clock.h"
#include "live/rpc/agent_stream.h"
#include "live/rpc/controller_client.h"

namespace paceline::controller {
namespace {

constexpr Duration kLimit = Duration::seconds(20);

// Does what the test says at each event, and remembers all that it was told.
class ScriptedMachine final : public StateMachine {
 public:
  struct Script {
    std::function<control::Effects(const control::Event&)> react;
    std::vector<control::JournalRecord> restored;
    std::vector<control::Event> events;
    bool is_finished = false;
  };
  explicit ScriptedMachine(Script& script) : script_(script) {}

  void restore(const control::JournalRecord& record) override {
    script_.restored.push_back(record);
  }
  void step(Instant, const control::Event& event) override {
    script_.events.push_back(event);
    if (script_.react) effects_ = script_.react(event);
  }
  control::Effects take_effects() override { return std::exchange(effects_, {}); }
  std::optional<Instant> next_deadline() const override { return std::nullopt; }
  bool is_finished() const override { return script_.is_finished; }

 private:
  Script& script_;
  control::Effects effects_;
};

JobSpec job() {
  return {.name = "job",
          .program = {.arguments = {"program"}, .environment = {}, .working_directory = "/"},
          .checkpoint_directory = {}};
}

class ControllerShellTest : public ::testing::Test {
 protected:
  ControllerShellTest() {
    std::string pattern = ::testing::TempDir() + "shell-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~ControllerShellTest() override {
    agents_.clear();
    shell_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string journal_path() const { return folder_ + "/journal"; }

  void start(std::unique_ptr<StateMachine> machine) {
    shell_.reset();
    Result<std::unique_ptr<ControllerShell>> opened =
        ControllerShell::open(loop_, {journal_path(), address_}, std::move(machine));
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    shell_ = std::move(opened).value();
  }
  void start_scripted() { start(std::make_unique<ScriptedMachine>(script_)); }

  template <class Condition>
  [[nodiscard]] bool run_until(Condition condition) {
    const Instant deadline = os::now() + kLimit;
    while (!condition()) {
      if (os::now() > deadline) return false;
      loop_.run_once(Duration::milliseconds(10));
    }
    return true;
  }

  struct Agent {
    std::unique_ptr<rpc::AgentStream> stream;
    std::vector<HostCommand> commands;
    int connected = 0;
  };
  Agent& add_agent(const std::string& name) {
    agents_.push_back(std::make_unique<Agent>());
    Agent& agent = *agents_.back();
    agent.stream = std::make_unique<rpc::AgentStream>(
        loop_, address_,
        rpc::AgentStream::Callbacks{
            .on_connected =
                [&agent, name] {
                  ++agent.connected;
                  EXPECT_TRUE(agent.stream->send(AgentHello{
                      .host_name = name, .agent_instance = 1, .address = 0x7f000101, .ranks = {}}));
                },
            .on_command =
                [&agent](HostCommand command) { agent.commands.push_back(std::move(command)); },
            .on_disconnected = [](const std::string&) {}});
    return agent;
  }

  template <class Event>
  std::vector<Event> events_of() const {
    std::vector<Event> found;
    for (const control::Event& event : script_.events)
      if (const auto* one = std::get_if<Event>(&event)) found.push_back(*one);
    return found;
  }

  os::Loop loop_;
  const rpc::RpcAddress address_{.address = rpc::random_local_address(), .token = "t"};
  ScriptedMachine::Script script_;
  std::unique_ptr<ControllerShell> shell_;
  std::vector<std::unique_ptr<Agent>> agents_;

 private:
  std::string folder_;
};

TEST_F(ControllerShellTest, AgentConnects_MachineHearsItAndItsCommandsArrive) {
  script_.react = [](const control::Event& event) {
    control::Effects effects;
    if (const auto* connected = std::get_if<control::HostConnected>(&event))
      effects.sends.push_back({connected->host, Shutdown{}});
    return effects;
  };
  start_scripted();
  Agent& agent = add_agent("host0");
  ASSERT_TRUE(run_until([&] { return agent.commands.size() == 1; }));
  agent.stream.reset();
  EXPECT_TRUE(run_until([&] { return !events_of<control::HostDisconnected>().empty(); }));
}

TEST_F(ControllerShellTest, Restarted_HostsKeepTheirIdsAndRecordsComeBack) {
  script_.react = [](const control::Event& event) {
    control::Effects effects;
    if (std::holds_alternative<control::HostConnected>(event))
      effects.journal.emplace_back(MembershipRecord(PrepareStarted{.number = EpochNumber(5)}));
    return effects;
  };
  start_scripted();
  add_agent("zebra");
  ASSERT_TRUE(run_until([&] { return events_of<control::HostConnected>().size() == 1; }));
  add_agent("ant");
  ASSERT_TRUE(run_until([&] { return events_of<control::HostConnected>().size() == 2; }));

  start_scripted();
  EXPECT_EQ(script_.restored.size(), 4u);
  EXPECT_EQ(events_of<control::Restarted>().size(), 1u);
  ASSERT_TRUE(run_until([&] { return events_of<control::HostConnected>().size() == 4; }));
  for (const auto& connected : events_of<control::HostConnected>())
    EXPECT_EQ(connected.host, HostId(connected.hello.host_name == "zebra" ? 0 : 1));
}

TEST_F(ControllerShellTest, JournalTakenOver_NothingIsSentAndTheLoopStops) {
  script_.react = [](const control::Event& event) {
    control::Effects effects;
    if (const auto* said = std::get_if<control::HostSaid>(&event)) {
      effects.journal.emplace_back(MembershipRecord(PrepareStarted{.number = EpochNumber(1)}));
      effects.sends.push_back({said->host, Shutdown{}});
    }
    return effects;
  };
  start_scripted();
  Agent& agent = add_agent("host0");
  ASSERT_TRUE(run_until([&] { return events_of<control::HostConnected>().size() == 1; }));
  const auto other = store::Journal::open(journal_path());
  ASSERT_TRUE(other.has_value());
  ASSERT_TRUE(agent.stream->send(TagTrouble{}));
  loop_.run();  // ends by itself
  ASSERT_FALSE(shell_->outcome().has_value());
  EXPECT_EQ(shell_->outcome().error().code, ErrorCode::Refused);
  loop_.run_once(Duration());
  EXPECT_TRUE(agent.commands.empty());
}

TEST_F(ControllerShellTest, AddressIsTaken_TheJournalStaysWithWhoHoldsIt) {
  script_.react = [](const control::Event&) {
    control::Effects effects;
    effects.journal.emplace_back(PrepareStarted{.number = EpochNumber(1)});
    return effects;
  };
  start_scripted();
  const Result<std::unique_ptr<ControllerShell>> second =
      ControllerShell::open(loop_, {journal_path(), address_}, make_controller_core());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::Unavailable);
  EXPECT_NE(second.error().message.find(address_.address), std::string::npos);
  EXPECT_TRUE(shell_->set_recovery(RecoveryMode::Off, "").has_value());
}

TEST_F(ControllerShellTest, SameHostConnectsTwice_NewStreamTakesItsPlace) {
  start_scripted();
  add_agent("host0");
  ASSERT_TRUE(run_until([&] { return events_of<control::HostConnected>().size() == 1; }));
  add_agent("host0");
  ASSERT_TRUE(run_until([&] { return events_of<control::HostConnected>().size() >= 2; }));
  EXPECT_GE(events_of<control::HostDisconnected>().size(), 1u);
}

TEST_F(ControllerShellTest, JobEnds_WatcherHearsItAndTheLoopStops) {
  script_.react = [this](const control::Event& event) {
    control::Effects effects;
    if (std::holds_alternative<control::Submit>(event))
      effects.watch.emplace_back(JobStarted{.hosts = 1, .ranks = 1});
    if (std::holds_alternative<control::StopRequested>(event)) {
      effects.watch.emplace_back(
          JobEnded{.verdict = Verdict::Stopped, .reason = "asked to", .step = Step()});
      script_.is_finished = true;
    }
    return effects;
  };
  start_scripted();
  std::vector<JobEvent> events;  // the client thread's until it is joined
  std::thread client_thread([&] {
    const auto client = rpc::ControllerClient::connect(address_, kLimit);
    ASSERT_TRUE(client.has_value());
    EXPECT_TRUE((*client)->submit(job()).has_value());
    EXPECT_TRUE((*client)->submit(job()).has_value());  // again: known
    JobSpec other = job();
    other.name = "other";
    EXPECT_FALSE((*client)->submit(other).has_value());
    EXPECT_FALSE((*client)->submit(JobSpec{}).has_value());
    std::atomic<bool> has_stopped = false;
    EXPECT_TRUE((*client)
                    ->watch({},
                            [&](const JobEvent& event) {
                              events.push_back(event);
                              if (has_stopped.exchange(true)) return;
                              EXPECT_TRUE((*client)->stop(false).has_value());
                            })
                    .has_value());
  });
  loop_.run();
  client_thread.join();
  EXPECT_TRUE(shell_->outcome().has_value());
  EXPECT_EQ(events_of<control::Submit>().size(), 1u);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<JobStarted>(events[0]));  // it came after the fact
  EXPECT_EQ(std::get<JobEnded>(events[1]).reason, "asked to");
}

TurnCommitted committed(uint64_t turn) {
  TurnCommitted committed;
  committed.turn = Turn(turn);
  return committed;
}

TEST_F(ControllerShellTest, Measurements_ComeSoonAndBeforeWhatFollowsThem) {
  script_.react = [this](const control::Event& event) {
    control::Effects effects;
    if (std::holds_alternative<control::Submit>(event))
      effects.watch.emplace_back(JobStarted{.hosts = 1, .ranks = 1});
    if (std::holds_alternative<control::RecoveryModeSet>(event))
      for (uint64_t turn = 1; turn <= 250; ++turn) effects.watch.emplace_back(committed(turn));
    if (std::holds_alternative<control::StopRequested>(event)) {
      effects.watch.emplace_back(committed(251));
      effects.watch.emplace_back(JobEnded{.verdict = Verdict::Stopped, .reason = {}, .step = {}});
      script_.is_finished = true;
    }
    return effects;
  };
  start_scripted();
  std::vector<JobEvent> events;  // the client thread's until it is joined
  std::thread client_thread([&] {
    const auto client = rpc::ControllerClient::connect(address_, kLimit);
    ASSERT_TRUE(client.has_value());
    EXPECT_TRUE((*client)->submit(job()).has_value());
    const auto take = [&](const JobEvent& event) {
      events.push_back(event);
      if (std::holds_alternative<JobStarted>(event)) {
        EXPECT_TRUE((*client)->set_recovery(RecoveryMode::Act, "").has_value());
      }
      // Nothing has followed them that could not wait.
      const auto* turn = std::get_if<TurnCommitted>(&event);
      if (turn != nullptr && turn->turn == Turn(250)) {
        EXPECT_TRUE((*client)->stop(false).has_value());
      }
    };
    EXPECT_TRUE((*client)->watch({}, take).has_value());
  });
  loop_.run();
  client_thread.join();
  ASSERT_EQ(events.size(), 253u);
  for (uint64_t turn = 1; turn <= 251; ++turn)
    EXPECT_EQ(std::get<TurnCommitted>(events[turn]).turn, Turn(turn));
  EXPECT_TRUE(std::holds_alternative<JobEnded>(events[252]));
}

TEST_F(ControllerShellTest, StopWithoutAJob_Ends) {
  start_scripted();
  shell_->request_stop();
  loop_.run();
  EXPECT_TRUE(shell_->outcome().has_value());
}

TEST_F(ControllerShellTest, RealCore_AgentIsToldToStartTheRank) {
  start(make_controller_core());
  ASSERT_TRUE(shell_->submit(job()).has_value());
  Agent& agent = add_agent("host0");
  ASSERT_TRUE(run_until([&] { return !agent.commands.empty(); }));
  ASSERT_TRUE(std::holds_alternative<Desired>(agent.commands[0]));
  EXPECT_EQ(std::get<Desired>(agent.commands[0]).ranks.size(), 1u);

  // As if killed: a second life with the same journal desires the same rank again.
  const DesiredRank rank = std::get<Desired>(agent.commands[0]).ranks[0];
  agent.commands.clear();
  start(make_controller_core());
  ASSERT_TRUE(run_until([&] { return !agent.commands.empty(); }));
  EXPECT_TRUE(shell_->submit(job()).has_value());
  ASSERT_TRUE(std::holds_alternative<Desired>(agent.commands[0]));
  EXPECT_EQ(std::get<Desired>(agent.commands[0]).ranks, std::vector<DesiredRank>{rank});
}

}  // namespace
}  // namespace paceline::controller
