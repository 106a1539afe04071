// Goal: every operation gives the right bits on every rank, whatever went before and whatever lies
// where; and every way for a group to end ends all its operations, naming the cause.
// Method: ranks are threads over one region. Random sequences of operations (the seed is printed,
// and taken back from PACELINE_TEST_SEED), with slots so small that messages take many rounds,
// against core's reduce() over all inputs.
#include "live/fabric/group.h"

#include <gtest/gtest.h>

#include <barrier>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "core/fabric/reduce.h"
#include "live/fabric/shared_buffers.h"
#include "live/os/clock.h"

namespace paceline::fabric {
namespace {

uint64_t test_seed() {
  const char* text = std::getenv("PACELINE_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 20260302;
  std::cout << "PACELINE_TEST_SEED=" << seed << "\n";
  return seed;
}

Region region_of(const Region::Options& options) {
  Result<Region> region = Region::make(options);
  CHECK(region.has_value(), region.has_value() ? "" : region.error().message);
  return std::move(region).value();
}

void run_ranks(uint32_t ranks, const std::function<void(uint32_t rank)>& body) {
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

// One call of a random sequence, the same on every rank but for where the buffers lie.
struct Call {
  Operation operation;
  ElementType type;
  Reduction reduction;
  uint64_t elements;
  uint32_t root;
  uint64_t seed;
};

Call random_call(Rng& rng, uint32_t ranks) {
  const uint64_t scale = rng.chance_ppm(200'000) ? 20'000 : 600;
  return {.operation = kOperations[rng.below(5)],
          .type = kElementTypes[rng.below(6)],
          .reduction = kReductions[rng.below(4)],
          .elements = rng.below(scale),
          .root = static_cast<uint32_t>(rng.below(ranks)),
          .seed = rng.next()};
}

// Small integers of any type, so that sums are exact enough to be interesting and never NaN.
std::vector<std::byte> input_of(const Call& call, uint32_t rank, uint64_t elements) {
  const size_t size = size_bytes_of(call.type);
  std::vector<std::byte> bytes(elements * size);
  Rng rng(call.seed + rank);
  for (uint64_t i = 0; i < elements; ++i) {
    const int64_t integer = rng.between(-1000, 1000);
    const float real = static_cast<float>(integer) * 0.37f;
    const double wide = real;
    const uint32_t bits = std::bit_cast<uint32_t>(real);
    const uint16_t half = static_cast<uint16_t>(0x3c00 + integer);  // near 1 as f16, as bf16 small
    const uint16_t bfloat = static_cast<uint16_t>(bits >> 16);
    const void* from = call.type == ElementType::F32    ? static_cast<const void*>(&real)
                       : call.type == ElementType::F64  ? static_cast<const void*>(&wide)
                       : call.type == ElementType::F16  ? static_cast<const void*>(&half)
                       : call.type == ElementType::Bf16 ? static_cast<const void*>(&bfloat)
                                                        : static_cast<const void*>(&integer);
    std::memcpy(bytes.data() + i * size, from, size);
  }
  return bytes;
}

std::vector<std::byte> expected_of(const Call& call, uint32_t self, uint32_t ranks) {
  const size_t size = size_bytes_of(call.type);
  if (call.operation == Operation::Barrier) return {};
  if (call.operation == Operation::Broadcast) return input_of(call, call.root, call.elements);
  if (call.operation == Operation::AllGather) {
    std::vector<std::byte> all;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const std::vector<std::byte> one = input_of(call, rank, call.elements);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  const bool is_scatter = call.operation == Operation::ReduceScatter;
  const uint64_t elements = is_scatter ? call.elements * ranks : call.elements;
  std::vector<std::vector<std::byte>> inputs;
  std::vector<const void*> sources;
  for (uint32_t rank = 0; rank < ranks; ++rank) inputs.push_back(input_of(call, rank, elements));
  for (const auto& input : inputs)
    sources.push_back(input.data() + (is_scatter ? self * call.elements * size : 0));
  std::vector<std::byte> result(call.elements * size);
  reduce({.type = call.type,
          .reduction = call.reduction,
          .sources = sources,
          .destination = result.data(),
          .count = call.elements});
  return result;
}

// Buffers of one rank: in the arena or not, in place or not.
class RankBuffers {
 public:
  RankBuffers(const Region& region, uint32_t self, uint64_t seed)
      : shared_(region, self), rng_(seed), has_arena_(region.arena_bytes() > 0) {}

  std::byte* fresh(size_t size_bytes) {
    if (has_arena_ && rng_.chance_ppm(500'000)) {
      Result<void*> buffer = shared_.allocate(size_bytes);
      CHECK(buffer.has_value(), buffer.has_value() ? "" : buffer.error().message);
      lent_.push_back(*buffer);
      return static_cast<std::byte*>(*buffer);
    }
    heap_.emplace_back(size_bytes + 64);
    return heap_.back().data() + rng_.below(64);
  }
  bool is_in_place() { return rng_.chance_ppm(500'000); }
  void forget() {
    for (void* buffer : lent_) shared_.release(buffer);
    lent_.clear();
    heap_.clear();
  }

 private:
  SharedBuffers shared_;
  Rng rng_;
  bool has_arena_;
  std::vector<void*> lent_;
  std::vector<std::vector<std::byte>> heap_;
};

// Makes the call and gives what came out.
Result<std::vector<std::byte>> carry_out(Group& group, RankBuffers& buffers, const Call& call) {
  const uint32_t ranks = group.ranks();
  const size_t size = size_bytes_of(call.type);
  const bool is_scatter = call.operation == Operation::ReduceScatter;
  const bool is_gather = call.operation == Operation::AllGather;
  const std::vector<std::byte> input =
      input_of(call, group.self(), call.elements * (is_scatter ? ranks : 1));
  const size_t output_bytes = call.elements * size * (is_gather ? ranks : 1);
  std::byte* in = buffers.fresh(input.size());
  const bool is_in_place = call.operation == Operation::AllReduce && buffers.is_in_place();
  std::byte* out = is_in_place ? in : buffers.fresh(output_bytes);
  std::copy(input.begin(), input.end(), in);
  const Message message = {.input = in,
                           .output = out,
                           .elements = call.elements,
                           .type = call.type,
                           .reduction = call.reduction};
  switch (call.operation) {
    case Operation::AllReduce:
      TRY(group.all_reduce(message));
      break;
    case Operation::ReduceScatter:
      TRY(group.reduce_scatter(message));
      break;
    case Operation::AllGather:
      TRY(group.all_gather(message));
      break;
    case Operation::Broadcast:
      if (group.self() == call.root) std::copy(input.begin(), input.end(), out);
      TRY(group.broadcast(
          {.buffer = out, .elements = call.elements, .type = call.type, .root = call.root}));
      break;
    case Operation::Barrier:
      TRY(group.barrier());
      return std::vector<std::byte>();
  }
  std::vector<std::byte> result(out, out + output_bytes);
  // As a program would, at once: peers that still read would find it.
  std::fill(in, in + input.size(), std::byte{0xee});
  std::fill(out, out + output_bytes, std::byte{0xee});
  return result;
}

void run_random_calls(const Region& region, uint64_t seed, int calls, uint64_t one_shot_bytes) {
  run_ranks(region.ranks(), [&](uint32_t self) {
    Rng rng(seed);
    RankBuffers buffers(region, self, seed + 1 + self);
    Group group(region, self, {.one_shot_bytes = one_shot_bytes, .streamed_bytes = 8000});
    for (int i = 0; i < calls; ++i) {
      const Call call = random_call(rng, region.ranks());
      const Result<std::vector<std::byte>> result = carry_out(group, buffers, call);
      ASSERT_TRUE(result.has_value()) << result.error().message;
      ASSERT_EQ(*result, expected_of(call, self, region.ranks()))
          << name_of(call.operation) << " of " << call.elements << " " << name_of(call.type)
          << ", call " << i << ", rank " << self << " of " << region.ranks();
      buffers.forget();
    }
  });
}

TEST(Group, RandomCalls_GiveTheBitsOfOneReduction) {
  const uint64_t seed = test_seed();
  for (const uint32_t ranks : {1u, 2u, 3u, 4u, 5u, 8u})
    for (const uint64_t one_shot_bytes : {uint64_t{0}, uint64_t{2000}}) {
      const Region region = region_of({.ranks = ranks, .cores = 2, .slot_bytes = 4096});
      run_random_calls(region, seed + ranks, 60, one_shot_bytes);
    }
}

TEST(Group, SharedBuffers_GiveTheBitsOfOneReduction) {
  const uint64_t seed = test_seed();
  for (const uint32_t ranks : {1u, 2u, 3u, 4u}) {
    const Region region =
        region_of({.ranks = ranks, .cores = 2, .slot_bytes = 4096, .arena_bytes = 8u << 20});
    run_random_calls(region, seed + ranks, 80, 1000);
  }
}

TEST(Group, SixtyFourRanks_WorkWithTheSmallestSlots) {
  const Region region = region_of({.ranks = 64, .cores = 2, .slot_bytes = 4096});
  run_random_calls(region, test_seed(), 6, Group::kChooseOneShot);
}

TEST(Group, DifferentCalls_AreNamedToEveryRank) {
  const Region region = region_of({.ranks = 3, .cores = 2});
  run_ranks(3, [&](uint32_t self) {
    Group group(region, self);
    std::vector<float> data(100);
    ASSERT_TRUE(group.barrier().has_value());
    const Status status =
        self == 1
            ? group.broadcast({.buffer = data.data(), .elements = 100, .root = 0})
            : group.all_reduce({.input = data.data(), .output = data.data(), .elements = 100});
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::InvalidArgument);
    EXPECT_NE(status.error().message.find("all-reduce (sum) of 100 f32"), std::string::npos)
        << status.error().message;
    EXPECT_NE(status.error().message.find("broadcast from 0 of 100 f32"), std::string::npos)
        << status.error().message;
  });
}

TEST(Group, ARankThatDoesNotCome_IsNamedAtTheDeadline) {
  const Region region = region_of({.ranks = 3, .cores = 2});
  std::barrier both_are_here(2);  // on a busy machine a thread may start late
  run_ranks(2, [&](uint32_t self) {
    Group group(region, self, {.deadline = Duration::milliseconds(500)});
    const Instant begun = os::now();
    both_are_here.arrive_and_wait();
    const Status status = group.barrier();
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::Timeout);
    EXPECT_EQ(status.error().message, "rank 2 did not come before the deadline");
    EXPECT_GE(os::now() - begun, Duration::milliseconds(490));
    // It stays so.
    EXPECT_FALSE(group.barrier().has_value());
  });
}

TEST(Group, AbortFromAnotherThread_EndsTheWaitWithTheFirstReason) {
  const Region region = region_of({.ranks = 2, .cores = 2});
  std::atomic<int64_t> aborted_at{0};
  std::thread waiting([&] {
    Group group(region, 0);
    const Status status = group.barrier();
    const Duration took = os::now() - Instant::from_nanoseconds(aborted_at.load());
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::Unavailable);
    EXPECT_EQ(status.error().message, "rank 1 was lost");
    EXPECT_LT(took, Duration::milliseconds(100));
  });
  // Asleep: nobody else uses the region.
  while (region.header().sleepers.load() == 0) std::this_thread::yield();
  aborted_at = os::now().in_nanoseconds();
  EXPECT_TRUE(region.abort({AbortReason::MemberLost, 1}));
  EXPECT_FALSE(region.abort({AbortReason::Cancelled, 0}));
  waiting.join();
  EXPECT_EQ(region.abort_cause(), (AbortCause{AbortReason::MemberLost, 1}));
}

TEST(Group, CountersThatWrap_ChangeNothing) {
  EXPECT_TRUE(has_reached(3, UINT32_MAX));
  EXPECT_FALSE(has_reached(UINT32_MAX, 3));
  EXPECT_TRUE(has_reached(7, 7));
}

TEST(Region, AnAttachedRegion_IsTheSameMemory) {
  const Region region = region_of({.ranks = 2, .cores = 2, .arena_bytes = 4096});
  Result<Region> other = Region::attach(os::Descriptor(::dup(region.descriptor())));
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->ranks(), 2u);
  EXPECT_NE(other->base(), region.base());
  EXPECT_TRUE(other->abort({AbortReason::Cancelled, 1}));
  EXPECT_EQ(region.abort_cause(), (AbortCause{AbortReason::Cancelled, 1}));
}

TEST(Region, OtherMemory_IsRefused) {
  Result<os::SharedMemory> memory = os::SharedMemory::make("paceline-test", 8192);
  ASSERT_TRUE(memory.has_value());
  const Result<Region> region = Region::attach(os::Descriptor(::dup(memory->descriptor())));
  ASSERT_FALSE(region.has_value());
  EXPECT_EQ(region.error().code, ErrorCode::Corrupt);
}

TEST(SharedBuffers, ReleasedNeighbours_BecomeOneAgain) {
  const Region region = region_of({.ranks = 1, .cores = 2, .arena_bytes = 2u << 20});
  SharedBuffers buffers(region, 0);
  std::vector<void*> all;
  for (int i = 0; i < 8; ++i) {
    Result<void*> buffer = buffers.allocate(256u << 10);
    ASSERT_TRUE(buffer.has_value());
    all.push_back(*buffer);
  }
  EXPECT_FALSE(buffers.allocate(1).has_value());
  for (const size_t i : {1u, 0u, 3u, 2u, 7u, 5u, 6u, 4u}) buffers.release(all[i]);
  EXPECT_TRUE(buffers.allocate(2u << 20).has_value());
  EXPECT_FALSE(buffers.allocate(SIZE_MAX - 10).has_value());
}

}  // namespace
}  // namespace paceline::fabric
