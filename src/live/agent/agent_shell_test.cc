// Goal: the agent's shell with real processes: what they say, print, measure, and how they end.
// Method: the test is the controller; it drives the loop until an event arrives, with a deadline.
#include "live/agent/agent_shell.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/str.h"
#include "live/os/clock.h"

namespace paceline::agent {
namespace {

constexpr Duration kLimit = Duration::seconds(20);

RankId rank_id(uint32_t slot, uint32_t incarnation = 1) {
  return {.slot = SlotId(slot), .incarnation = Incarnation(incarnation)};
}

bool is_alive(pid_t process) { return ::kill(process, 0) == 0; }

class Host {
 public:
  explicit Host(std::string log_directory = {})
      : shell_(loop_, {.core = {.host_name = "host0", .agent_instance = 7, .address = 0x7f000101},
                       .host = {.address = "127.0.1.1",
                                .environment = os::current_environment(),
                                .log_directory = std::move(log_directory)},
                       .send = [this](const HostEvent& e) { events.push_back(e); },
                       .on_exit = [this](const std::string&) { has_exited = true; }}) {
    shell_.controller_connected();
  }

  void desire(std::vector<std::string> arguments, std::vector<RankId> ranks) {
    Desired desired{.sequence = ++sequence_,
                    .program = {.arguments = std::move(arguments),
                                .environment = {{"GREETING", "hello"}},
                                .working_directory = {},
                                .job_token = 0xabc},
                    .ranks = {}};
    for (const RankId rank : ranks)
      desired.ranks.push_back({.rank = rank, .local_rank = 0, .world_size = 4});
    shell_.controller_said(desired);
  }
  void prepare(RankId rank, uint32_t number) {
    shell_.controller_said(ToRank{.rank = rank, .message = Prepare{EpochNumber(number)}});
  }
  void say(const HostCommand& command) { shell_.controller_said(command); }

  // Turns the loop until an event of this kind that fits has come; nullptr at the deadline.
  template <class Kind>
  const Kind* await(std::function<bool(const Kind&)> fits = [](const Kind&) { return true; }) {
    const Instant limit = os::now() + kLimit;
    for (size_t i = 0; os::now() < limit;) {
      for (; i < events.size(); ++i)
        if (const Kind* event = std::get_if<Kind>(&events[i]); event != nullptr && fits(*event))
          return event;
      loop_.run_once(Duration::milliseconds(100));
    }
    return nullptr;
  }
  const RankEnded* await_end(RankEnded::How how) {
    return await<RankEnded>([how](const RankEnded& e) { return e.how == how; });
  }
  bool await_exit() {
    const Instant limit = os::now() + kLimit;
    while (!has_exited && os::now() < limit) loop_.run_once(Duration::milliseconds(100));
    return has_exited;
  }
  // Start of a member that is ready: its process id, 0 if it did not come up.
  pid_t start_member(RankId rank, std::vector<std::string> behaviour = {"report"}) {
    std::vector<std::string> arguments = {PACELINE_TEST_CHILD, "member"};
    arguments.insert(arguments.end(), behaviour.begin(), behaviour.end());
    desire(arguments, {rank});
    const RankUp* up = await<RankUp>();
    return up == nullptr ? 0 : static_cast<pid_t>(up->process_id);
  }

  std::deque<HostEvent> events;  // stable addresses
  bool has_exited = false;

 private:
  os::Loop loop_;
  AgentShell shell_;
  uint64_t sequence_ = 0;
};

TEST(AgentShell, Member_Starts_SaysHelloAndAnswersPrepare) {
  Host host;
  ASSERT_NE(host.start_member(rank_id(3)), 0);
  const RankUp* up = host.await<RankUp>();
  EXPECT_EQ(up->endpoint, (Endpoint{.address = 0x7f000101, .port = 4242}));
  EXPECT_EQ(host.await<RankStarted>()->process_id, up->process_id);
  host.prepare(rank_id(3), 9);
  const FromRank* from = host.await<FromRank>();
  ASSERT_NE(from, nullptr);
  EXPECT_EQ(from->report.prepare, EpochNumber(9));
  EXPECT_EQ(from->report.held, std::vector<MicroBatch>{MicroBatch(5)});
}

TEST(AgentShell, Window_RankHasWritten_CarriesViewSampleAndMetric) {
  Host host;
  ASSERT_NE(host.start_member(rank_id(0)), 0);
  const Window* window = host.await<Window>([](const Window& w) { return !w.samples.empty(); });
  ASSERT_NE(window, nullptr);
  EXPECT_EQ(window->samples[0].second.compute, Duration::nanoseconds(1234));
  ASSERT_EQ(window->metrics.size(), 1u);
  EXPECT_EQ(window->metrics[0].name, "loss");
  ASSERT_EQ(window->views.size(), 1u);
  EXPECT_EQ(window->views[0].committed, Turn(7));
  EXPECT_EQ(window->views[0].phase, RankPhase::Compute);
}

// A process as small as this one may be gone before its bell is heard; then the end says it all.
TEST(AgentShell, Crash_TwentyTimes_BellComesBeforeTheReap) {
  std::vector<int64_t> bell_us;
  for (uint32_t i = 0; i < 20; ++i) {
    Host host;
    const pid_t process = host.start_member(rank_id(i));
    ASSERT_NE(process, 0);
    ASSERT_NE(host.await<Window>(), nullptr);
    const Instant killed = os::now();
    ASSERT_EQ(::kill(process, SIGKILL), 0);
    const RankEnded* first = host.await<RankEnded>();
    const int64_t first_us = (os::now() - killed).in_microseconds();
    ASSERT_NE(first, nullptr);
    EXPECT_TRUE(first->was_in_micro_batch);
    EXPECT_EQ(first->micro_batch, MicroBatch(5));
    EXPECT_FALSE(first->was_ended_by_agent);
    if (first->how == RankEnded::How::Dying) bell_us.push_back(first_us);
    const RankEnded* ended = host.await_end(RankEnded::How::Killed);
    ASSERT_NE(ended, nullptr);
    EXPECT_EQ(ended->code, SIGKILL);
  }
  ASSERT_FALSE(bell_us.empty());
  std::sort(bell_us.begin(), bell_us.end());
  std::printf("bell after SIGKILL: heard %zu of 20, median %ld us, worst %ld us\n", bell_us.size(),
              bell_us[bell_us.size() / 2], bell_us.back());
}

TEST(AgentShell, Abort_LastLines_TellWhy) {
  Host host;
  ASSERT_NE(host.start_member(rank_id(0), {"crash"}), 0);
  host.prepare(rank_id(0), 1);
  const RankEnded* ended = host.await_end(RankEnded::How::Killed);
  ASSERT_NE(ended, nullptr);
  EXPECT_EQ(ended->code, SIGABRT);
  ASSERT_FALSE(ended->last_lines.empty());
  EXPECT_EQ(ended->last_lines.back(), "about to crash");
}

TEST(AgentShell, Exit_WithCode_IsReportedWithTheUnfinishedLine) {
  Host host;
  ASSERT_NE(host.start_member(rank_id(0), {"exit", "17"}), 0);
  host.prepare(rank_id(0), 1);
  const RankEnded* ended = host.await_end(RankEnded::How::Exited);
  ASSERT_NE(ended, nullptr);
  EXPECT_EQ(ended->code, 17);
  ASSERT_EQ(ended->last_lines.size(), 1u);
  EXPECT_EQ(ended->last_lines[0], "a last word");
}

TEST(AgentShell, StartFails_Reason_SaysWhetherAnotherTryCanHelp) {
  const struct {
    const char* program;
    bool is_permanent;
  } cases[] = {
      {"/nowhere/program", true}, {"no-such-program-in-path", true}, {"/etc/passwd", true}};
  for (const auto& c : cases) {
    Host host;
    host.desire({c.program}, {rank_id(0)});
    const RankStartFailed* failed = host.await<RankStartFailed>();
    ASSERT_NE(failed, nullptr) << c.program;
    EXPECT_EQ(failed->is_permanent, c.is_permanent) << failed->reason;
    EXPECT_NE(failed->reason.find(c.program), std::string::npos) << failed->reason;
  }
}

TEST(AgentShell, Output_LinesAndLogFile_AreWhole) {
  const std::string directory = str(::testing::TempDir(), "paceline_agent_", ::getpid());
  {
    Host host(directory);
    host.desire({"sh", "-c", "echo one; echo two >&2; printf '%09000d\\n' 5; echo $RANK $GREETING"},
                {rank_id(2)});
    ASSERT_NE(host.await_end(RankEnded::How::Exited), nullptr);
    std::vector<std::string> standard;
    for (const HostEvent& event : host.events)
      if (const auto* line = std::get_if<OutputLine>(&event)) {
        if (line->is_stderr)
          EXPECT_EQ(line->text, "two");
        else
          standard.push_back(line->text);
      }
    ASSERT_EQ(standard.size(), 4u);
    EXPECT_EQ(standard[0], "one");
    EXPECT_EQ(standard[1].size(), kMaxLineBytes);
    EXPECT_EQ(standard[2].size(), 9000 - kMaxLineBytes);
    EXPECT_EQ(standard[3], "2 hello");
  }
  std::ifstream log(str(directory, "/rank2.1.log"));
  std::string line;
  size_t lines = 0;
  while (std::getline(log, line)) ++lines;
  EXPECT_EQ(lines, 5u);
  std::filesystem::remove_all(directory);
}

TEST(AgentShell, Flood_OfOutput_DoesNotStopTheWindows) {
  Host host;
  host.desire({"sh", "-c", "while :; do echo 0123456789012345678901234567890123456789; done"},
              {rank_id(0)});
  int windows = 0;
  ASSERT_NE(host.await<Window>([&windows](const Window&) { return ++windows == 10; }), nullptr);
  const auto is_line = [](const HostEvent& e) { return std::holds_alternative<OutputLine>(e); };
  const auto lines = std::count_if(host.events.begin(), host.events.end(), is_line);
  EXPECT_LE(lines, 11 * static_cast<long>(RankOutput::kBudgetLines + 500));
  EXPECT_GT(lines, 0);
}

TEST(AgentShell, NotDesiredAnyMore_GrandchildrenToo_AreEnded) {
  Host host;
  host.desire({PACELINE_TEST_CHILD, "family"}, {rank_id(0)});
  const OutputLine* line = host.await<OutputLine>();
  ASSERT_NE(line, nullptr);
  const auto grandchild = static_cast<pid_t>(std::atoi(line->text.substr(11).c_str()));
  ASSERT_TRUE(is_alive(grandchild)) << line->text;
  host.desire({"true"}, {});
  const RankEnded* ended = host.await_end(RankEnded::How::Killed);
  ASSERT_NE(ended, nullptr);
  EXPECT_TRUE(ended->was_ended_by_agent);
  // Whoever adopted it may need a moment to reap it.
  const Instant limit = os::now() + kLimit;
  while (is_alive(grandchild) && os::now() < limit) ::usleep(1000);
  EXPECT_FALSE(is_alive(grandchild));
}

TEST(AgentShell, StoppedRank_EvidenceIsKept_BeforeItIsEnded) {
  Host host;
  const pid_t process = host.start_member(rank_id(0), {"hang"});
  ASSERT_NE(process, 0);
  ASSERT_EQ(::kill(process, SIGSTOP), 0);
  const auto is_stopped = [](const Window& w) { return w.views[0].is_stopped; };
  ASSERT_NE(host.await<Window>([&](const Window& w) { return !w.views.empty() && is_stopped(w); }),
            nullptr);
  host.desire({"true"}, {});
  const RankEnded* ended = host.await_end(RankEnded::How::Killed);
  ASSERT_NE(ended, nullptr);
  ASSERT_FALSE(ended->last_lines.empty());
  EXPECT_NE(ended->last_lines[0].find("state T"), std::string::npos) << ended->last_lines[0];
}

TEST(AgentShell, StoppedRank_ManyMessages_DoNotBlockTheAgent) {
  Host host;
  const pid_t process = host.start_member(rank_id(0));
  ASSERT_NE(process, 0);
  ASSERT_EQ(::kill(process, SIGSTOP), 0);
  for (uint32_t i = 1; i <= 5000; ++i) host.prepare(rank_id(0), i);
  ASSERT_EQ(::kill(process, SIGCONT), 0);
  ASSERT_NE(host.await<FromRank>(), nullptr);
}

TEST(AgentShell, Shutdown_EndsEveryRank_ThenExits) {
  Host host;
  const pid_t process = host.start_member(rank_id(0));
  ASSERT_NE(process, 0);
  host.say(Shutdown{});
  EXPECT_TRUE(host.await_exit());
  EXPECT_FALSE(is_alive(process));
}

TEST(AgentShell, Release_RankEndsInOrder) {
  Host host;
  ASSERT_NE(host.start_member(rank_id(0)), 0);
  host.say(Release{rank_id(0)});
  const RankEnded* ended = host.await_end(RankEnded::How::Exited);
  ASSERT_NE(ended, nullptr);
  EXPECT_EQ(ended->code, 0);
}

// The agent itself dies: its ranks, and what they started, must not outlive it.
TEST(AgentShell, AgentKilled_RankDiesWithIt) {
  int report[2];
  ASSERT_EQ(::pipe(report), 0);
  const pid_t agent = ::fork();
  if (agent == 0) {
    Host host;
    const pid_t process = host.start_member(rank_id(0));
    if (::write(report[1], &process, sizeof process) != sizeof process) ::_exit(1);
    for (;;) ::pause();
  }
  pid_t process = 0;
  ASSERT_EQ(::read(report[0], &process, sizeof process), static_cast<ssize_t>(sizeof process));
  ASSERT_GT(process, 0);
  ASSERT_TRUE(is_alive(process));
  ASSERT_EQ(::kill(agent, SIGKILL), 0);
  ASSERT_EQ(::waitpid(agent, nullptr, 0), agent);
  const Instant limit = os::now() + kLimit;
  while (is_alive(process) && os::now() < limit) ::usleep(1000);
  EXPECT_FALSE(is_alive(process));
  ::close(report[0]);
  ::close(report[1]);
}

}  // namespace
}  // namespace paceline::agent
