// Goal: a rank that is started anew takes the state of two members while they train on, joins them,
// and the job ends with the same bits. Method: real processes (testing/cluster.h).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "live/wire/memory_label.h"
#include "live/worker/heal.h"
#include "live/worker/testing/cluster.h"
#include "live/worker/testing/trainer.h"

namespace paceline::worker {
namespace {

using testing::Cluster;
using testing::TrainerOptions;

uint64_t reference_digest(const TrainerOptions& trainer, uint32_t micro_batches) {
  SessionOptions options{
      .micro_batches = micro_batches, .seed = trainer.seed, .agent_socket = {}, .ring = {}};
  Result<std::unique_ptr<Job>> job = Job::open(std::move(options));
  EXPECT_TRUE(job.has_value());
  return testing::train(**job, trainer).digest;
}

class Heal : public ::testing::TestWithParam<ReduceMode> {};
INSTANTIATE_TEST_SUITE_P(Modes, Heal, ::testing::Values(ReduceMode::Exact, ReduceMode::Fast));

// Rank 1 of three is killed in step 3 and a new one joins while the others train. Digests at the
// end.
std::set<uint64_t> digests_with_a_join(TrainerOptions trainer, ReduceMode mode) {
  trainer.on_micro_batch = [](uint32_t slot, const paceline_micro_batch& m) {
    if (slot == 1 && m.step == 3) {
      static int begun = 0;  // of this process: a joiner never sees step 3
      if (++begun == 2) ::raise(SIGKILL);
    }
  };
  Cluster cluster({.ranks = 3, .micro_batches = 8, .reduce = mode, .trainer = trainer});
  bool is_started = false;
  cluster.on_turn = [&] {
    if (is_started || !cluster.rank(1).has_ended || cluster.rank(0).epoch != EpochNumber(2)) return;
    is_started = true;
    cluster.start_joiner(1);
  };
  EXPECT_TRUE(cluster.run());
  EXPECT_TRUE(is_started);
  EXPECT_TRUE(cluster.rank(1).done && !cluster.rank(1).done->has_left);
  EXPECT_EQ(cluster.rank(1).epoch, EpochNumber(3)) << "it never became a member";
  EXPECT_FALSE(cluster.rank(1).heals.empty());
  if (!cluster.rank(1).heals.empty()) {
    const wire::HealNotice& last = cluster.rank(1).heals.back();
    EXPECT_EQ(last.what, HealProgress::What::Level) << last.detail;
  }
  return cluster.digests();
}

TEST_P(Heal, RankStartedAnew_JoinsWhileTheOthersTrain) {
  TrainerOptions trainer;
  trainer.steps = 250;
  const std::set<uint64_t> digests = digests_with_a_join(trainer, GetParam());
  EXPECT_EQ(digests.size(), 1u);
  if (GetParam() == ReduceMode::Exact) {
    EXPECT_EQ(digests, std::set<uint64_t>{reference_digest(trainer, 8)});
  }
}

// The joiner passes barriers as it follows its donor, and is waited for once it is a member, be
// that before, between or behind its own barriers of that step.
TEST(HealWithBarriers, EveryStep_TheJoinerComesToThemToo) {
  TrainerOptions trainer;
  trainer.steps = 250;
  trainer.between_steps = [](Job& job, uint64_t) {
    for (int i = 0; i < 3; ++i) {
      if (job.barrier() == PACELINE_OK) continue;
      std::fprintf(stderr, "rank %u: %s\n", job.rank(), job.last_error());
      ::_exit(20);
    }
    return true;
  };
  const uint64_t expected = reference_digest(trainer, 8);
  for (int join = 0; join < 2; ++join)
    EXPECT_EQ(digests_with_a_join(trainer, ReduceMode::Exact), std::set<uint64_t>{expected});
}

// --- Faults in the middle of a transfer ---

// Where a copy of its state lies in a rank's memory: first address and size. /proc shows it by
// name.
std::optional<std::pair<uint64_t, uint64_t>> snapshot_of(pid_t process) {
  std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(wire::kSnapshotLabel) == std::string::npos) continue;
    uint64_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64, &begin, &end) == 2)
      return std::pair(begin, end - begin);
  }
  return std::nullopt;
}

// The copy is complete: its memfd is sealed.
bool has_sealed_snapshot(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process) + "/fd";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.find(wire::kSnapshotLabel) == std::string::npos) continue;
    const os::Descriptor memory(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    const int seals = ::fcntl(memory.get(), F_GET_SEALS);
    if (seals != -1 && (seals & F_SEAL_SEAL) != 0) return true;
  }
  return false;
}

void flip_byte(pid_t process, uint64_t address) {
  const os::Descriptor memory(
      ::open(("/proc/" + std::to_string(process) + "/mem").c_str(), O_RDWR | O_CLOEXEC));
  std::byte value{};
  ASSERT_EQ(::pread(memory.get(), &value, 1, static_cast<off_t>(address)), 1);
  value ^= std::byte{1};
  ASSERT_EQ(::pwrite(memory.get(), &value, 1, static_cast<off_t>(address)), 1);
}

// Rank 1 of three is lost and started anew. It is stopped as soon as its first donor's copy is
// complete, which is larger than what sockets buffer: so the transfer stands still in the middle,
// while the donors train on, until the test has done what it wants to do.
class HealScene {
 public:
  static constexpr size_t kBallastBytes = 48 << 20;
  static constexpr uint32_t kDonor = 0, kOtherDonor = 2, kJoiner = 1;

  explicit HealScene(std::function<void(Cluster&)> in_the_middle)
      : in_the_middle_(std::move(in_the_middle)) {
    trainer_.steps = 1'000'000;  // until it is stopped
    trainer_.ballast_bytes = kBallastBytes;
    trainer_.on_micro_batch = [](uint32_t slot, const paceline_micro_batch& m) {
      if (slot == kJoiner && m.step == 3) ::raise(SIGKILL);
    };
    cluster_.emplace(Cluster::Options{
        .ranks = 3, .micro_batches = 8, .reduce = ReduceMode::Exact, .trainer = trainer_});
    cluster_->on_turn = [this] { turn(); };
  }

  Cluster& cluster() { return *cluster_; }
  bool was_in_the_middle() const { return stage_ == Stage::After; }
  uint64_t reference() {
    TrainerOptions alone = trainer_;
    alone.on_micro_batch = {};
    alone.steps = cluster_->rank(kOtherDonor).shared().now.step.load();
    return reference_digest(alone, 8);
  }
  bool has_said(HealProgress::What what) {
    const auto& heals = cluster_->rank(kJoiner).heals;
    return std::any_of(heals.begin(), heals.end(),
                       [what](const auto& heal) { return heal.what == what; });
  }

 private:
  enum class Stage { Training, Asking, Copying, After };

  uint64_t committed() { return cluster_->rank(kDonor).shared().now.committed.load(); }

  void turn() {
    Cluster& cluster = *cluster_;
    const Cluster::Rank& joiner = cluster.rank(kJoiner);
    switch (stage_) {
      case Stage::Training:
        if (!joiner.has_ended || cluster.rank(kDonor).epoch != EpochNumber(2)) return;
        cluster.start_joiner(kJoiner);
        stage_ = Stage::Asking;
        return;
      case Stage::Asking:
        if (!has_sealed_snapshot(cluster.rank(kDonor).process)) return;
        cluster.kill(kJoiner, SIGSTOP);
        copying_since_ = committed();
        stage_ = Stage::Copying;
        return;
      case Stage::Copying:  // two commits later it has been partly sent
        if (committed() < copying_since_ + 2) return;
        stage_ = Stage::After;
        in_the_middle_(cluster);
        cluster.kill(kJoiner, SIGCONT);
        return;
      case Stage::After:
        stop_when_joined();
    }
  }

  void stop_when_joined() {
    const Epoch& base = cluster_->membership().base();
    const Cluster::Rank& joiner = cluster_->rank(kJoiner);
    if (is_stopping_ || !cluster_->membership().can_announce() || !base.has(joiner.id)) return;
    if (joiner.epoch != base.number) return;
    is_stopping_ = true;
    cluster_->membership().announce(
        {.members = base.members, .owner = base.owner, .is_last = true});
    cluster_->carry_out();
  }

  std::function<void(Cluster&)> in_the_middle_;
  TrainerOptions trainer_;
  std::optional<Cluster> cluster_;
  Stage stage_ = Stage::Training;
  uint64_t copying_since_ = 0;
  bool is_stopping_ = false;
};

// False: all had been sent before the byte was flipped.
bool is_chunk_taken_from_the_other() {
  HealScene scene([](Cluster& cluster) {
    const auto copy = snapshot_of(cluster.rank(HealScene::kDonor).process);
    if (!copy) return;
    flip_byte(cluster.rank(HealScene::kDonor).process, copy->first + HealScene::kBallastBytes - 5);
  });
  EXPECT_TRUE(scene.cluster().run());
  EXPECT_TRUE(scene.was_in_the_middle());
  EXPECT_EQ(scene.cluster().digests(), std::set<uint64_t>{scene.reference()});
  const auto& heals = scene.cluster().rank(HealScene::kJoiner).heals;
  if (heals.empty()) return false;
  EXPECT_EQ(heals.back().what, HealProgress::What::Level) << heals.back().detail;
  if (heals.size() == 1) return false;
  EXPECT_EQ(heals.size(), 2u);
  EXPECT_EQ(heals[0].what, HealProgress::What::ChunkRepaired);
  EXPECT_EQ(heals[0].donor, scene.cluster().rank(HealScene::kDonor).id) << "who is to blame";
  EXPECT_NE(heals[0].detail.find("taken again from"), std::string::npos) << heals[0].detail;
  return true;
}

// How far the transfer gets before this process is awake to flip the byte is the machine's affair.
TEST(HealFault, ByteFlippedInADonorsCopy_ChunkComesFromTheOther) {
  constexpr int kMaxTries = 5;
  for (int i = 0; i < kMaxTries && !HasFailure(); ++i)
    if (is_chunk_taken_from_the_other()) return;
  if (!HasFailure()) GTEST_SKIP() << "the machine is too busy to come between: " << kMaxTries;
}

TEST(HealFault, DonorKilled_JoinerTakesAllFromTheOther) {
  HealScene scene([](Cluster& cluster) { cluster.kill(HealScene::kDonor, SIGKILL); });
  ASSERT_TRUE(scene.cluster().run());
  ASSERT_TRUE(scene.was_in_the_middle());
  EXPECT_FALSE(scene.has_said(HealProgress::What::Failed)) << "the other donor lived";
  EXPECT_TRUE(scene.has_said(HealProgress::What::Level));
  EXPECT_EQ(scene.cluster().digests(), std::set<uint64_t>{scene.reference()});
}

TEST(HealFault, OtherDonorKilled_JoinerStartsAgainWithTheFirst) {
  HealScene scene([](Cluster& cluster) { cluster.kill(HealScene::kOtherDonor, SIGKILL); });
  ASSERT_TRUE(scene.cluster().run());
  ASSERT_TRUE(scene.was_in_the_middle());
  EXPECT_FALSE(scene.has_said(HealProgress::What::Failed));
  EXPECT_TRUE(scene.has_said(HealProgress::What::Level));
  EXPECT_EQ(scene.cluster().digests().size(), 1u);
}

TEST(HealFault, JoinerKilled_DonorsFreeTheCopy) {
  HealScene scene([](Cluster& cluster) { cluster.kill(HealScene::kJoiner, SIGKILL); });
  bool is_freed = false;
  scene.cluster().on_moment.push_back([&] {
    Cluster& cluster = scene.cluster();
    if (!scene.was_in_the_middle()) return false;
    if (snapshot_of(cluster.rank(HealScene::kDonor).process) ||
        snapshot_of(cluster.rank(HealScene::kOtherDonor).process))
      return false;
    is_freed = true;
    const Epoch& base = cluster.membership().base();
    cluster.membership().announce({.members = base.members, .owner = base.owner, .is_last = true});
    cluster.carry_out();
    return true;
  });
  ASSERT_TRUE(scene.cluster().run());
  EXPECT_TRUE(is_freed);
  EXPECT_EQ(scene.cluster().digests(), std::set<uint64_t>{scene.reference()});
}

TEST(HealFault, BothDonorsKilled_JoinerSaysFailed) {
  HealScene scene([](Cluster& cluster) {
    cluster.kill(HealScene::kDonor, SIGKILL);
    cluster.kill(HealScene::kOtherDonor, SIGKILL);
  });
  scene.cluster().on_moment.push_back([&] {
    if (!scene.has_said(HealProgress::What::Failed)) return false;
    scene.cluster().kill(HealScene::kJoiner, SIGKILL);
    return true;
  });
  ASSERT_TRUE(scene.cluster().run());
  EXPECT_TRUE(scene.has_said(HealProgress::What::Failed));
  EXPECT_FALSE(scene.has_said(HealProgress::What::Level));
}

// --- The trial ---

// The first micro-batch that a joiner of slot 1 is given, because its process sees no step before.
bool is_trial(uint32_t slot, const paceline_micro_batch& m) {
  static bool has_begun_one = false;  // in this process
  return slot == 1 && m.step > 3 && !std::exchange(has_begun_one, true);
}

// The job of three whose rank 1 is killed in step 3 and started anew in epoch `joins_in`, until it
// is stopped.
struct TrialScene {
  explicit TrialScene(TrainerOptions trainer_options, ReduceMode mode = ReduceMode::Exact,
                      EpochNumber joins_in = EpochNumber(2))
      : trainer(std::move(trainer_options)), cluster(options(trainer, mode)) {
    cluster.on_moment.push_back([this, joins_in] {
      if (!cluster.rank(1).has_ended || cluster.rank(0).epoch != joins_in) return false;
      cluster.start_joiner(1);
      return true;
    });
  }
  static Cluster::Options options(TrainerOptions& trainer, ReduceMode mode) {
    trainer.steps = 1'000'000;
    trainer.on_micro_batch = [then = trainer.on_micro_batch](uint32_t slot,
                                                             const paceline_micro_batch& m) {
      if (slot == 1 && m.step == 3) ::raise(SIGKILL);
      if (then) then(slot, m);
    };
    return {.ranks = 3, .micro_batches = 8, .reduce = mode, .trainer = trainer};
  }
  bool can_stop() { return cluster.membership().can_announce(); }
  void stop() {
    const Epoch& base = cluster.membership().base();
    cluster.membership().announce({.members = base.members, .owner = base.owner, .is_last = true});
    cluster.carry_out();
  }
  bool has_joined() {
    const Epoch& base = cluster.membership().base();
    return cluster.rank(1).is_joiner && base.has(cluster.rank(1).id) &&
           cluster.rank(1).epoch == base.number && can_stop();
  }
  void stop_when_joined() {
    cluster.on_moment.push_back([this] {
      if (!has_joined()) return false;
      stop();
      return true;
    });
  }
  uint64_t reference() {
    TrainerOptions alone = trainer;
    alone.on_micro_batch = {};
    alone.on_gradient = {};
    alone.steps = cluster.rank(2).shared().now.step.load();
    return reference_digest(alone, 8);
  }
  TrainerOptions trainer;
  Cluster cluster;
};

// One bit of one element, in every gradient that the joiner's process computes.
TrainerOptions trainer_with_another_host() {
  TrainerOptions trainer;
  trainer.on_gradient = [](uint32_t slot, const paceline_micro_batch& m, std::span<float> values) {
    if (slot == 1 && m.step > 3) values[5] = std::nextafter(values[5], 1e9f);
  };
  return trainer;
}

TEST(HealTrial, JoinerThatComputesSomethingElse_NeverCounts) {
  TrialScene scene(trainer_with_another_host());
  const Cluster::Rank& joiner = scene.cluster.rank(1);
  scene.cluster.on_moment.push_back([&] {
    if (joiner.heals.size() < 5 || !scene.can_stop()) return false;
    scene.cluster.kill(1, SIGKILL);
    scene.stop();
    return true;
  });
  ASSERT_TRUE(scene.cluster.run());
  ASSERT_EQ(joiner.heals.size(), 5u);
  EXPECT_EQ(joiner.epoch, EpochNumber(0)) << "it was a member";
  for (const wire::HealNotice& heal : joiner.heals) {
    EXPECT_EQ(heal.what, HealProgress::What::Failed);
    EXPECT_NE(heal.detail.find("donor's host (CPU of rank 0, 1 thread) and this rank's (CPU of "
                               "rank 1, 2 threads)"),
              std::string::npos)
        << heal.detail;
  }
  EXPECT_EQ(scene.cluster.digests(), std::set<uint64_t>{scene.reference()});
}

TEST(HealTrial, JoinerThatComputesTheSame_CountsAfterOne) {
  TrainerOptions trainer;
  int pipes[2];  // a byte for each trial
  ASSERT_EQ(::pipe(pipes), 0);
  trainer.on_micro_batch = [&pipes](uint32_t slot, const paceline_micro_batch& m) {
    if (is_trial(slot, m) && ::write(pipes[1], "t", 1) != 1) ::_exit(20);
  };
  TrialScene scene(trainer);
  scene.stop_when_joined();
  ASSERT_TRUE(scene.cluster.run());
  ::close(pipes[1]);
  char trial = 0;
  EXPECT_EQ(::read(pipes[0], &trial, 1), 1) << "it was not tried";
  ::close(pipes[0]);
  ASSERT_EQ(scene.cluster.rank(1).heals.size(), 1u);
  EXPECT_EQ(scene.cluster.rank(1).heals[0].what, HealProgress::What::Level);
  EXPECT_EQ(scene.cluster.digests(), std::set<uint64_t>{scene.reference()})
      << "what a trial has made does not count";
}

TEST(HealTrial, FastMode_AsksForNone) {
  TrialScene scene(trainer_with_another_host(), ReduceMode::Fast);
  scene.stop_when_joined();
  ASSERT_TRUE(scene.cluster.run());
  ASSERT_EQ(scene.cluster.rank(1).heals.size(), 1u);
  EXPECT_EQ(scene.cluster.rank(1).heals[0].what, HealProgress::What::Level);
  EXPECT_EQ(scene.cluster.digests().size(), 1u);
}

// Only who computes can make a trial: from a hot spare a joiner takes its state as it is.
TEST(HealTrial, DonorWithoutMicroBatches_JoinerCountsUntried) {
  TrialScene scene(trainer_with_another_host(), ReduceMode::Exact, EpochNumber(3));
  scene.cluster.on_moment.push_back([&] {
    const Epoch& base = scene.cluster.membership().base();
    if (!scene.cluster.rank(1).has_ended || base.number != EpochNumber(2) || !scene.can_stop())
      return false;
    std::vector<MemberIndex> owner(base.micro_batches(), MemberIndex(1));  // rank 2 computes all
    scene.cluster.membership().announce({.members = base.members, .owner = std::move(owner)});
    scene.cluster.carry_out();
    return true;
  });
  scene.stop_when_joined();
  ASSERT_TRUE(scene.cluster.run());
  const auto& heals = scene.cluster.rank(1).heals;
  ASSERT_EQ(heals.size(), 1u);
  EXPECT_EQ(heals[0].what, HealProgress::What::Level) << heals[0].detail;
  EXPECT_EQ(heals[0].donor, scene.cluster.rank(0).id);
  EXPECT_EQ(scene.cluster.digests().size(), 1u);
}

TEST(HealTrial, DonorKilledMeanwhile_JoinerIsTriedByTheOther) {
  int begun[2], go_on[2];
  ASSERT_EQ(::pipe(begun), 0);
  ASSERT_EQ(::pipe2(go_on, O_CLOEXEC), 0);
  TrainerOptions trainer;
  trainer.on_micro_batch = [&](uint32_t slot, const paceline_micro_batch& m) {
    char go = 0;
    if (!is_trial(slot, m)) return;
    if (::write(begun[1], "t", 1) != 1 || ::read(go_on[0], &go, 1) != 1) ::_exit(20);
  };
  TrialScene scene(trainer);
  ASSERT_EQ(::fcntl(begun[0], F_SETFL, O_NONBLOCK), 0);
  bool was_trial = false;
  scene.cluster.on_moment.push_back([&] {
    char trial = 0;
    if (::read(begun[0], &trial, 1) != 1) return false;
    was_trial =
        scene.cluster.rank(1).shared().now.phase.load() == static_cast<uint32_t>(RankPhase::Trial);
    scene.cluster.kill(0, SIGKILL);
    return true;
  });
  scene.cluster.on_moment.push_back([&] {
    if (!scene.cluster.rank(0).has_ended || scene.cluster.rank(2).epoch != EpochNumber(3))
      return false;
    return ::write(go_on[1], "g", 1) == 1;
  });
  scene.stop_when_joined();
  ASSERT_TRUE(scene.cluster.run());
  EXPECT_TRUE(was_trial) << "it computes nothing that the job waits for";
  const auto& heals = scene.cluster.rank(1).heals;
  // What the first donor had sent may make it level before it hears of the loss.
  ASSERT_FALSE(heals.empty());
  EXPECT_EQ(heals.back().what, HealProgress::What::Level);
  EXPECT_EQ(heals.back().donor, scene.cluster.rank(2).id);
  EXPECT_EQ(scene.cluster.digests(), std::set<uint64_t>{scene.reference()});
  for (const int end : {begun[0], begun[1], go_on[0], go_on[1]}) ::close(end);
}

}  // namespace
}  // namespace paceline::worker
