// Goal: a fault strikes the process that owns its slot, when its rank has reached step and phase.
// Method: the victim is a forked child with a ring that the test writes as a rank would.
#include "live/fault/injector.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <new>
#include <span>

#include "base/str.h"
#include "live/os/clock.h"
#include "live/os/memfd.h"
#include "live/wire/memory_label.h"

namespace paceline::fault {
namespace {

constexpr Duration kLimit = Duration::seconds(10);
constexpr const char* kVictimArgument = "--be-a-victim";
constexpr size_t kCopyBytes = 256 * 1024 + 100;  // not whole pages
// The rounds of a victim's ring, by which it is asked to seal a copy, and says how many bytes of it
// have changed when it looks, right after.
constexpr uint32_t kSealACopy = 1;
constexpr uint32_t kHasLooked = 2;

char state_of(pid_t process) {
  std::ifstream file(str("/proc/", process, "/stat"));
  std::string text;
  std::getline(file, text);
  const size_t at = text.rfind(')');
  return at == std::string::npos ? '?' : text[at + 2];
}

bool is_traced(pid_t process) {
  std::ifstream file(str("/proc/", process, "/status"));
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("TracerPid:")) return line.back() != '0' || line.size() > 12;
  return false;
}

uint32_t changed_right_after_sealing() {
  Result<os::SharedMemory> copy = os::SharedMemory::make(wire::kSnapshotLabel, kCopyBytes);
  if (!copy) return 0;
  const std::span bytes(static_cast<uint8_t*>(copy->data()), kCopyBytes);
  std::fill(bytes.begin(), bytes.end(), uint8_t{0x55});
  if (!copy->seal_contents()) return 0;
  return static_cast<uint32_t>(
      std::count_if(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte != 0x55; }));
}

[[noreturn]] void be_a_victim(int ring_descriptor) {
  void* memory = ::mmap(nullptr, sizeof(wire::RankRing), PROT_READ | PROT_WRITE, MAP_SHARED,
                        ring_descriptor, 0);
  ::close(ring_descriptor);  // as the library does
  auto& ring = *static_cast<wire::RankRing*>(memory);
  ring.now.main_thread = static_cast<uint32_t>(::getpid());
  ring.bell.is_armed = 1;
  while (true) {
    ::poll(nullptr, 0, 1);
    if (ring.now.round != kSealACopy) continue;
    ring.now.begun = changed_right_after_sealing();
    ring.now.round = kHasLooked;
  }
}

// A program of our own that waits for ever, with a ring as an agent would hand it one.
class Victim {
 public:
  Victim() {
    ring_descriptor_ = ::memfd_create(wire::kRingLabel, 0);
    EXPECT_EQ(::ftruncate(ring_descriptor_, sizeof(wire::RankRing)), 0);
    void* memory = ::mmap(nullptr, sizeof(wire::RankRing), PROT_READ | PROT_WRITE, MAP_SHARED,
                          ring_descriptor_, 0);
    ring_ = new (memory) wire::RankRing{};
    ring_->version = wire::kRingVersion;
    ring_->magic = wire::kRingMagic;
    std::string descriptor = str(ring_descriptor_);
    process_ = ::fork();
    if (process_ == 0) {
      char program[] = "/proc/self/exe";
      char argument[] = "--be-a-victim";
      char* arguments[] = {program, argument, descriptor.data(), nullptr};
      char* environment[] = {nullptr};
      ::execve(program, arguments, environment);
      ::_exit(127);
    }
    wait_until_ready();
  }
  ~Victim() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    ::munmap(ring_, sizeof(wire::RankRing));
    ::close(ring_descriptor_);
  }
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;

  pid_t process() const { return process_; }
  void set(uint64_t step, RankPhase phase) {
    ring_->now.step = step;
    ring_->now.phase = static_cast<uint32_t>(phase);
  }
  // How many bytes of a copy have changed when whoever sealed it looks, right after.
  uint32_t seal_a_copy() const {
    ring_->now.round = kSealACopy;
    const Instant deadline = os::now() + kLimit;
    while (ring_->now.round != kHasLooked && os::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(ring_->now.round, kHasLooked);
    return ring_->now.begun;
  }
  void wait_until_traced() const {
    const Instant deadline = os::now() + kLimit;
    while (!is_traced(process_) && os::now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(is_traced(process_));
  }
  // A process between fork and exec has no memory of its own to be struck in.
  void wait_until_ready() const {
    const Instant deadline = os::now() + kLimit;
    while (ring_->bell.is_armed == 0 && os::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(ring_->bell.is_armed, 1u);
  }
  // Waits until the kernel shows one of `states`; the state seen last if it never does.
  char wait_for_state(const std::string& states) const {
    const Instant deadline = os::now() + kLimit;
    char state = '?';
    while (os::now() < deadline) {
      state = state_of(process_);
      if (states.find(state) != std::string::npos) break;
      std::this_thread::yield();
    }
    return state;
  }
  int wait_for_signal() const {
    int status = 0;
    ::waitpid(process_, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  int ring_descriptor_ = -1;
  wire::RankRing* ring_ = nullptr;
  pid_t process_ = 0;
};

class GameDay {
 public:
  explicit GameDay(const std::string& fault)
      : injector_({parse_fault(fault).value()}, std::nullopt, [this](const Struck& struck) {
          const os::MutexLock lock(mutex_);
          struck_.push_back(struck);
          changed_.notify_all();
        }) {}

  void place(const Victim& victim, SlotId slot = SlotId(0)) {
    injector_.rank_placed(
        {.rank = {slot, Incarnation(1)}, .host_name = "host0", .process = victim.process()});
  }
  std::optional<Struck> wait() {
    const Instant deadline = os::now() + kLimit;
    const os::MutexLock lock(mutex_);
    while (struck_.empty() && os::now() < deadline) changed_.wait_for(mutex_, deadline - os::now());
    if (struck_.empty()) return std::nullopt;
    return struck_.front();
  }
  size_t count() {
    const os::MutexLock lock(mutex_);
    return struck_.size();
  }
  Injector& injector() { return injector_; }

 private:
  os::Mutex mutex_;
  os::Condition changed_;
  std::vector<Struck> struck_;
  Injector injector_;
};

TEST(Injector, Kill_AtItsStep_EndsTheOwner) {
  Victim victim;
  GameDay day("kill@step=5:rank=0,phase=compute");
  day.place(victim);
  victim.set(5, RankPhase::Compute);
  const std::optional<Struck> struck = day.wait();
  ASSERT_TRUE(struck.has_value());
  EXPECT_EQ(struck->failure, "");
  EXPECT_EQ(struck->step, 5u);
  EXPECT_EQ(victim.wait_for_signal(), SIGKILL);
}

TEST(Injector, Kill_PhaseMissedAtItsStep_StrikesLater) {
  Victim victim;
  GameDay day("kill@step=5:rank=0,phase=compute");
  day.place(victim);
  victim.set(5, RankPhase::Wait);
  // The phase has not been seen at step 5: it strikes when it is at a later one.
  victim.set(6, RankPhase::Wait);
  victim.set(6, RankPhase::Compute);
  const std::optional<Struck> struck = day.wait();
  ASSERT_TRUE(struck.has_value());
  EXPECT_EQ(struck->step, 6u);
}

TEST(Injector, Stop_WithADuration_IsContinued) {
  Victim victim;
  GameDay day("stop@step=1:rank=0,for=50ms");
  day.place(victim);
  victim.set(1, RankPhase::Compute);
  ASSERT_TRUE(day.wait().has_value());
  EXPECT_EQ(victim.wait_for_state("S"), 'S');
}

TEST(Injector, Stop_WithoutADuration_Lasts) {
  Victim victim;
  GameDay day("stop@step=1:rank=0");
  day.place(victim);
  victim.set(1, RankPhase::Compute);
  ASSERT_TRUE(day.wait().has_value());
  EXPECT_EQ(victim.wait_for_state("T"), 'T');
}

TEST(Injector, LoseHost_FreezesAgentAndRank) {
  Victim agent, rank;
  GameDay day("lose-host@step=1:rank=0,for=ever");
  day.injector().agent_started("host0", agent.process());
  day.place(rank);
  rank.set(1, RankPhase::Compute);
  ASSERT_TRUE(day.wait().has_value());
  EXPECT_EQ(agent.wait_for_state("T"), 'T');
  EXPECT_EQ(rank.wait_for_state("T"), 'T');
}

TEST(Injector, Slow_ForAWhile_AlternatesAndEnds) {
  Victim victim;
  GameDay day("slow@step=1:rank=0,factor=3,for=100ms");
  day.place(victim);
  victim.set(1, RankPhase::Compute);
  ASSERT_TRUE(day.wait().has_value());
  EXPECT_EQ(victim.wait_for_state("T"), 'T');
  EXPECT_EQ(victim.wait_for_state("S"), 'S');
}

TEST(Injector, Hang_LeavesTheThreadInARead) {
#if !defined(__x86_64__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "takes threads over on x86-64 only";
#endif
  Victim victim;
  GameDay day("hang@step=1:rank=0");
  day.place(victim);
  victim.set(1, RankPhase::Compute);
  const std::optional<Struck> struck = day.wait();
  ASSERT_TRUE(struck.has_value());
  ASSERT_EQ(struck->failure, "");
  EXPECT_EQ(victim.wait_for_state("S"), 'S');
  std::ifstream file(str("/proc/", victim.process(), "/syscall"));
  std::string number;
  file >> number;
  EXPECT_EQ(number, "0");  // read
}

TEST(Injector, Spin_LeavesTheThreadRunning) {
#if !defined(__x86_64__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "takes threads over on x86-64 only";
#endif
  Victim victim;
  GameDay day("spin@step=1:rank=0");
  day.place(victim);
  victim.set(1, RankPhase::Compute);
  const std::optional<Struck> struck = day.wait();
  ASSERT_TRUE(struck.has_value());
  ASSERT_EQ(struck->failure, "");
  EXPECT_EQ(victim.wait_for_state("R"), 'R');
}

TEST(Injector, Corrupt_WhileARankHeals_StrikesEveryCopyOnceItIsSealed) {
  Victim first, second, joiner;
  GameDay day("corrupt@step=1");
  first.set(1, RankPhase::Compute);
  second.set(1, RankPhase::Compute);
  joiner.set(0, RankPhase::Heal);
  day.place(first, SlotId(0));
  day.place(second, SlotId(1));
  day.place(joiner, SlotId(2));
  first.wait_until_traced();
  second.wait_until_traced();
  EXPECT_EQ(first.seal_a_copy(), 1u);
  EXPECT_EQ(second.seal_a_copy(), 1u);
  EXPECT_EQ(first.seal_a_copy(), 1u) << "the joiner may ask for another";
  const std::optional<Struck> struck = day.wait();
  ASSERT_TRUE(struck.has_value());
  EXPECT_EQ(struck->rank->slot, SlotId(0));
  EXPECT_EQ(day.count(), 1u);
}

TEST(Injector, Corrupt_OnceTheRankHasHealed_LetsGo) {
  Victim donor, joiner;
  GameDay day("corrupt@step=1:rank=1");
  donor.set(1, RankPhase::Compute);
  joiner.set(0, RankPhase::Heal);
  day.place(donor, SlotId(0));
  day.place(joiner, SlotId(1));
  donor.wait_until_traced();
  EXPECT_EQ(donor.seal_a_copy(), 1u);
  joiner.set(1, RankPhase::Compute);
  const Instant deadline = os::now() + kLimit;
  while (is_traced(donor.process()) && os::now() < deadline) std::this_thread::yield();
  EXPECT_FALSE(is_traced(donor.process()));
  EXPECT_EQ(donor.seal_a_copy(), 0u);
}

TEST(Injector, EmptySlot_TheFaultWaitsForTheNextOwner) {
  Victim victim;
  GameDay day("kill@step=1:rank=0");
  victim.set(1, RankPhase::Compute);
  EXPECT_EQ(day.count(), 0u);
  day.place(victim);
  EXPECT_TRUE(day.wait().has_value());
}

}  // namespace
}  // namespace paceline::fault

int main(int argument_count, char** arguments) {
  if (argument_count == 3 && std::string(arguments[1]) == paceline::fault::kVictimArgument) {
    paceline::fault::be_a_victim(std::stoi(arguments[2]));
  }
  ::testing::InitGoogleTest(&argument_count, arguments);
  return RUN_ALL_TESTS();
}
