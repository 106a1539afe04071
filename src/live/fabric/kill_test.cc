// Goal: a rank killed at any instruction of any operation hangs nobody and falsifies nothing: every
// survivor returns within a second, blames the right rank, and has had only right results until
// then. Method: ranks are forked processes that go through random operations and check each result.
// The test kills one at a random moment after a random number of posts (the seed is printed, and
// taken back from PACELINE_TEST_SEED; PACELINE_TEST_KILLS says how many) and, as an agent would,
// tells the region when the process has ended.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "base/rng.h"
#include "live/fabric/group.h"
#include "live/fabric/shared_buffers.h"
#include "live/os/clock.h"

namespace paceline::fabric {
namespace {

uint64_t number_from(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  const uint64_t number = text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
  std::cout << name << "=" << number << "\n";
  return number;
}

constexpr int kWrongResult = 1;
constexpr int kOtherFailure = 2;
constexpr int kLostRank = 100;  // plus the rank

// What rank `rank` has in element i of call c: integers small enough that every sum is exact in
// f32.
float value_of(uint32_t rank, uint64_t call, uint64_t i) {
  return static_cast<float>((rank + 1) * ((call + i) % 1024));
}

// One rank's endless work. Returns the exit status.
class Worker {
 public:
  Worker(const Region& region, uint32_t self, uint64_t seed)
      : ranks_(region.ranks()),
        rng_(seed),
        group_(region, self),
        input_(kMost * ranks_),
        output_(kMost * ranks_) {
    SharedBuffers shared(region, self);
    Result<void*> in = shared.allocate(kMost * sizeof(float));
    Result<void*> out = shared.allocate(kMost * sizeof(float));
    CHECK(in.has_value() && out.has_value());
    shared_input_ = static_cast<float*>(*in);
    shared_output_ = static_cast<float*>(*out);
  }

  int run() {
    for (uint64_t call = 0;; ++call) {
      const uint64_t elements = rng_.below(rng_.chance_ppm(300'000) ? kMost : 4000);
      const uint64_t kind = rng_.below(6);
      const uint32_t root = static_cast<uint32_t>(rng_.below(ranks_));
      const Status status = one_call(kind, call, elements, root);
      if (!status.has_value()) {
        if (status.error().code != ErrorCode::Unavailable) return kOtherFailure;
        int rank = 0;
        return std::sscanf(status.error().message.c_str(), "rank %d was lost", &rank) == 1
                   ? kLostRank + rank
                   : kOtherFailure;
      }
      if (!is_right_) return kWrongResult;
    }
  }

 private:
  static constexpr uint64_t kMost = 100'000;

  void fill(float* to, uint64_t call, uint64_t elements) {
    for (uint64_t i = 0; i < elements; ++i) to[i] = value_of(group_.self(), call, i);
  }
  void expect(const float* result, uint64_t elements, uint64_t call, uint64_t first, float factor) {
    for (uint64_t i = 0; i < elements; ++i)
      is_right_ &= result[i] == factor * value_of(0, call, first + i);
  }

  Status one_call(uint64_t kind, uint64_t call, uint64_t elements, uint32_t root) {
    const float everybody = static_cast<float>(ranks_ * (ranks_ + 1) / 2);
    switch (kind) {
      case 0:
      case 1: {
        float* in = kind == 0 ? input_.data() : shared_input_;
        float* out = kind == 0 ? output_.data() : shared_output_;
        fill(in, call, elements);
        TRY(group_.all_reduce({.input = in, .output = out, .elements = elements}));
        expect(out, elements, call, 0, everybody);
        fill(in, call + 500, elements);  // what a peer that still read would find
        return {};
      }
      case 2:
        fill(input_.data(), call, elements * ranks_);
        TRY(group_.reduce_scatter(
            {.input = input_.data(), .output = output_.data(), .elements = elements}));
        expect(output_.data(), elements, call, group_.self() * elements, everybody);
        return {};
      case 3:
        fill(input_.data(), call, elements);
        TRY(group_.all_gather(
            {.input = input_.data(), .output = output_.data(), .elements = elements}));
        for (uint32_t rank = 0; rank < ranks_; ++rank)
          expect(output_.data() + rank * elements, elements, call, 0, static_cast<float>(rank + 1));
        return {};
      case 4:
        fill(output_.data(), call, elements);
        TRY(group_.broadcast({.buffer = output_.data(), .elements = elements, .root = root}));
        expect(output_.data(), elements, call, 0, static_cast<float>(root + 1));
        return {};
      default:
        return group_.barrier();
    }
  }

  uint32_t ranks_;
  Rng rng_;
  Group group_;
  std::vector<float> input_;
  std::vector<float> output_;
  float* shared_input_ = nullptr;
  float* shared_output_ = nullptr;
  bool is_right_ = true;
};

// Waits for the process to end. False: it did not before the deadline.
bool wait_for_end(pid_t process, Instant deadline, int* status) {
  while (os::now() < deadline) {
    const pid_t ended = ::waitpid(process, status, WNOHANG);
    if (ended == process) return true;
    ::usleep(200);
  }
  return false;
}

struct Outcome {
  Duration longest;
  std::vector<int> exit_codes;  // of survivors; -1: it hung
};

Outcome kill_one(uint64_t seed) {
  Rng rng(seed);
  const uint32_t ranks = 2 + static_cast<uint32_t>(rng.below(4));
  Result<Region> region =
      Region::make({.ranks = ranks, .cores = 2, .slot_bytes = 32768, .arena_bytes = 2u << 20});
  CHECK(region.has_value());
  std::vector<pid_t> processes;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const pid_t process = ::fork();
    CHECK(process >= 0);
    if (process == 0) ::_exit(Worker(*region, rank, seed).run());
    processes.push_back(process);
  }
  const uint32_t victim = static_cast<uint32_t>(rng.below(ranks));
  const uint32_t posts = static_cast<uint32_t>(rng.below(60));
  const Instant give_up = os::now() + Duration::seconds(20);
  while (!has_reached(region->seat(victim).progress.load(), posts) && os::now() < give_up)
    ::sched_yield();
  const Instant moment = os::now() + Duration::nanoseconds(rng.between(0, 300'000));
  while (os::now() < moment) {
  }
  ::kill(processes[victim], SIGKILL);
  int status = 0;
  CHECK(wait_for_end(processes[victim], give_up, &status));
  region->abort({AbortReason::MemberLost, victim});
  const Instant told = os::now();
  Outcome outcome;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (rank == victim) continue;
    const bool has_ended = wait_for_end(processes[rank], told + Duration::seconds(1), &status);
    if (!has_ended) {
      ::kill(processes[rank], SIGKILL);
      ::waitpid(processes[rank], &status, 0);
    }
    outcome.exit_codes.push_back(!has_ended ? -1
                                 : WIFEXITED(status)
                                     ? WEXITSTATUS(status) - static_cast<int>(victim)
                                     : -1);
  }
  outcome.longest = os::now() - told;
  return outcome;
}

TEST(Kill, AtRandomPoints_SurvivorsReturnAndBlameTheRightRank) {
  const uint64_t seed = number_from("PACELINE_TEST_SEED", 20260303);
  const uint64_t kills = number_from("PACELINE_TEST_KILLS", 60);
  Duration longest;
  for (uint64_t i = 0; i < kills; ++i) {
    const Outcome outcome = kill_one(seed + i);
    longest = std::max(longest, outcome.longest);
    for (const int code : outcome.exit_codes)
      ASSERT_EQ(code, kLostRank) << "kill " << i << "; again: PACELINE_TEST_SEED=" << seed + i
                                 << " PACELINE_TEST_KILLS=1";
  }
  std::cout << "the last survivor returned at most " << longest << " after the region was told\n";
}

}  // namespace
}  // namespace paceline::fabric
