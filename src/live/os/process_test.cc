// Goal: processes, bells and /proc as the agent relies on them. Method: real processes; every wait
// has a deadline.
#include "live/os/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <new>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "live/os/clock.h"
#include "live/os/death_bell.h"
#include "live/os/memfd.h"
#include "live/os/proc_stat.h"

namespace paceline::os {
namespace {

constexpr int kLimitMs = 20'000;

SpawnOptions shell(const std::string& script) {
  return {.arguments = {"sh", "-c", script},
          .environment = current_environment(),
          .working_directory = {},
          .inherited = {}};
}

bool wait_for_end(const Process& process) {
  pollfd poll_entry{.fd = process.descriptor(), .events = POLLIN, .revents = 0};
  return ::poll(&poll_entry, 1, kLimitMs) == 1;
}

ExitStatus run(const SpawnOptions& options) {
  std::variant<Process, SpawnError> started = Process::spawn(options);
  EXPECT_TRUE(std::holds_alternative<Process>(started));
  auto& process = std::get<Process>(started);
  EXPECT_TRUE(wait_for_end(process));
  EXPECT_TRUE(process.has_ended());
  return process.reap();
}

TEST(Process, Exit_CodeAndSignal_AreToldApart) {
  const ExitStatus code = run(shell("exit 5"));
  EXPECT_FALSE(code.is_killed);
  EXPECT_EQ(code.code, 5);
  const ExitStatus signal = run(shell("kill -SEGV $$"));
  EXPECT_TRUE(signal.is_killed);
  EXPECT_EQ(signal.code, SIGSEGV);
}

TEST(Process, Spawn_WhatCannotRun_SaysWhy) {
  const struct {
    SpawnOptions options;
    const char* reason;
    bool is_permanent;
  } cases[] = {
      {{.arguments = {"/no/such"}, .environment = {}, .working_directory = {}, .inherited = {}},
       "No such file",
       true},
      {{.arguments = {"/etc/passwd"}, .environment = {}, .working_directory = {}, .inherited = {}},
       "Permission denied",
       true},
      {{.arguments = {"/bin/true"},
        .environment = {},
        .working_directory = "/no/such",
        .inherited = {}},
       "cannot enter /no/such",
       true},
  };
  for (const auto& c : cases) {
    const std::variant<Process, SpawnError> started = Process::spawn(c.options);
    ASSERT_TRUE(std::holds_alternative<SpawnError>(started)) << c.reason;
    const auto& error = std::get<SpawnError>(started);
    EXPECT_NE(error.reason.find(c.reason), std::string::npos) << error.reason;
    EXPECT_EQ(error.is_permanent, c.is_permanent);
  }
}

// The child sees its own group, its niceness, an empty signal mask, and no descriptor but its own.
TEST(Process, Spawn_Child_StartsClean) {
  const Descriptor leaked(::open("/dev/null", O_RDONLY));  // not close-on-exec
  sigset_t blocked;
  ::sigfillset(&blocked);
  ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  SpawnOptions options = shell(
      "test $(ps -o pgid= -p $$ 2>/dev/null || cut -d' ' -f5 /proc/$$/stat) -eq $$ && "
      "test $(nice) -eq 3 && ! test -e /proc/$$/fd/" +
      std::to_string(leaked.get()) + " && grep -q 'SigBlk:.0000000000000000' /proc/self/status");
  options.niceness = 3;
  const ExitStatus status = run(options);
  ::pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
  EXPECT_FALSE(status.is_killed);
  EXPECT_EQ(status.code, 0);
}

TEST(Process, Destroyed_WhileRunning_LeavesNothing) {
  pid_t id = 0;
  {
    std::variant<Process, SpawnError> started = Process::spawn(shell("while :; do :; done"));
    ASSERT_TRUE(std::holds_alternative<Process>(started));
    id = std::get<Process>(started).id();
    ASSERT_EQ(::kill(id, 0), 0);
  }
  EXPECT_NE(::kill(id, 0), 0);
}

TEST(ProcStat, StoppedProcess_IsSeenAsStopped) {
  std::variant<Process, SpawnError> started = Process::spawn(shell("while :; do :; done"));
  ASSERT_TRUE(std::holds_alternative<Process>(started));
  const auto& process = std::get<Process>(started);
  EXPECT_FALSE(read_process_stat(process.id()).is_stopped);
  process.signal_group(SIGSTOP);
  ASSERT_EQ(::waitpid(process.id(), nullptr, WUNTRACED), process.id());
  EXPECT_TRUE(read_process_stat(process.id()).is_stopped);
  EXPECT_FALSE(read_process_stat(process.id()).is_traced);
  const std::vector<std::string> evidence = collect_evidence(process.id());
  ASSERT_EQ(evidence.size(), 1u);
  EXPECT_NE(evidence[0].find("state T"), std::string::npos) << evidence[0];
  EXPECT_TRUE(read_run_queue_delay(process.id(), process.id()).has_value());
}

TEST(ProcStat, ProcessThatIsGone_GivesNothing) {
  EXPECT_EQ(read_process_stat(-1).cpu_time, Duration());
  EXPECT_TRUE(collect_evidence(-1).empty());
  EXPECT_FALSE(read_run_queue_delay(-1, -1).has_value());
}

struct Bell {
  pthread_mutex_t mutex;
  std::atomic<uint32_t> is_armed;
};

class DeathBellTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<SharedMemory> memory = SharedMemory::make("bell", sizeof(Bell));
    ASSERT_TRUE(memory.has_value());
    memory_.emplace(std::move(*memory));
    bell_ = new (memory_->data()) Bell;
    init_death_bell(parts());
  }
  DeathBellParts parts() { return {bell_->mutex, bell_->is_armed}; }

  // A child that holds the bell; ends when it is killed.
  pid_t start_holder() {
    const pid_t child = ::fork();
    if (child == 0) {
      ::pthread_mutex_lock(&bell_->mutex);
      bell_->is_armed = 1;
      for (;;) ::pause();
    }
    const Instant limit = now() + Duration::seconds(20);
    while (bell_->is_armed == 0 && now() < limit) std::this_thread::yield();
    return child;
  }

  std::optional<SharedMemory> memory_;
  Bell* bell_ = nullptr;
};

TEST_F(DeathBellTest, HolderKilled_RingsOnce) {
  for (int i = 0; i < 20; ++i) {
    init_death_bell(parts());
    const pid_t holder = start_holder();
    std::array<int, 2> ring;
    ASSERT_EQ(::pipe(ring.data()), 0);
    {
      DeathBellWaiter waiter(parts(), [&ring] { ASSERT_EQ(::write(ring[1], "x", 1), 1); });
      ASSERT_EQ(::kill(holder, SIGKILL), 0);
      pollfd poll_entry{.fd = ring[0], .events = POLLIN, .revents = 0};
      EXPECT_EQ(::poll(&poll_entry, 1, kLimitMs), 1);
    }
    ::waitpid(holder, nullptr, 0);
    ::close(ring[0]);
    ::close(ring[1]);
  }
}

TEST_F(DeathBellTest, NeverArmed_WaiterEndsAtOnce) {
  bool has_rung = false;
  const Instant before = now();
  {
    DeathBellWaiter waiter(parts(), [&has_rung] { has_rung = true; });
  }
  EXPECT_FALSE(has_rung);
  EXPECT_LT(now() - before, Duration::seconds(10));
}

TEST_F(DeathBellTest, HolderLeftInOrder_DoesNotRing) {
  std::atomic<bool> has_rung = false;
  {
    std::thread holder([this] {
      ::pthread_mutex_lock(&bell_->mutex);
      bell_->is_armed = 1;
      ::pthread_mutex_unlock(&bell_->mutex);
    });
    holder.join();
    DeathBellWaiter waiter(parts(), [&has_rung] { has_rung = true; });
  }
  EXPECT_FALSE(has_rung);
}

TEST(SharedMemory, Size_IsSealed) {
  Result<SharedMemory> memory = SharedMemory::make("sealed", 4096);
  ASSERT_TRUE(memory.has_value());
  EXPECT_NE(::ftruncate(memory->descriptor(), 0), 0);
  EXPECT_NE(::ftruncate(memory->descriptor(), 8192), 0);
}

TEST(SharedMemory, SealedContents_AreReadOnlyToWhoComesLater) {
  Result<SharedMemory> memory = SharedMemory::make("sealed", 4096);
  ASSERT_TRUE(memory.has_value());
  ASSERT_TRUE(memory->seal_contents());
  EXPECT_EQ(::pwrite(memory->descriptor(), "x", 1, 0), -1);
  static_cast<char*>(memory->data())[0] = 'y';
  char seen = 0;
  ASSERT_EQ(::pread(memory->descriptor(), &seen, 1, 0), 1);
  EXPECT_EQ(seen, 'y');
}

}  // namespace
}  // namespace paceline::os
