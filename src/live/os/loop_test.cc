// Goal: the loop runs what is ready, due and posted, in that order and once. Method: one loop,
// pipes and threads; every wait ends by an event, with run_once's limit as the deadline.
#include "live/os/loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

#include "live/os/clock.h"

namespace paceline::os {
namespace {

class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK), 0); }
  ~Pipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  int reader() const { return ends_[0]; }
  void write() const { EXPECT_EQ(::write(ends_[1], "x", 1), 1); }

 private:
  std::array<int, 2> ends_{};
};

TEST(Loop, PostedFromManyThreads_AllRunInOrderOfEachThread) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  Loop loop;
  std::array<int, kThreads> next{};
  int left = kThreads * kEach;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&loop, &next, &left, t] {
      for (int i = 0; i < kEach; ++i) {
        const bool is_taken = loop.post([&loop, &next, &left, t, i] {
          EXPECT_EQ(next[static_cast<size_t>(t)]++, i);
          if (--left == 0) loop.stop();
        });
        EXPECT_TRUE(is_taken);
      }
    });
  }
  loop.run();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(left, 0);
}

TEST(Loop, PostBeyondBound_IsRefused) {
  Loop loop;
  for (size_t i = 0; i < Loop::kMaxPosted; ++i) ASSERT_TRUE(loop.post([] {}));
  EXPECT_FALSE(loop.post([] {}));
  loop.run_once(Duration::seconds(1));
  EXPECT_TRUE(loop.post([] {}));
}

TEST(Loop, TimersDue_RunByDeadlineOnce) {
  Loop loop;
  std::string order;
  const Instant start = now();
  loop.arm("late", start - Duration::milliseconds(1), [&order] { order += 'b'; });
  loop.arm("early", start - Duration::milliseconds(2), [&order] { order += 'a'; });
  loop.arm("dropped", start, [&order] { order += 'x'; });
  loop.disarm("dropped");
  loop.arm("moved", start, [&order] { order += 'y'; });
  loop.arm("moved", start + Duration::seconds(3600), [&order] { order += 'z'; });
  loop.run_once(Duration());
  loop.run_once(Duration());
  EXPECT_EQ(order, "ab");
}

TEST(Loop, TimerInFuture_NotBeforeItsDeadline) {
  Loop loop;
  const Instant deadline = now() + Duration::milliseconds(5);
  Instant ran;
  loop.arm("timer", deadline, [&loop, &ran] {
    ran = now();
    loop.stop();
  });
  loop.run();
  EXPECT_GE(ran, deadline);
}

TEST(Loop, TimerArmsItselfForThePast_LetsOthersRunBetween) {
  Loop loop;
  int rounds = 0;
  std::function<void()> again = [&] {
    ++rounds;
    loop.arm("again", now(), again);
  };
  loop.arm("again", now(), again);
  loop.run_once(Duration());
  EXPECT_EQ(rounds, 1);
}

TEST(Loop, DescriptorUnwatchedInSameTurn_IsNotCalled) {
  Loop loop;
  const Pipe first, second;
  int calls = 0;
  loop.watch(first.reader(), EPOLLIN, [&](uint32_t) {
    ++calls;
    loop.unwatch(first.reader());
    loop.unwatch(second.reader());
  });
  loop.watch(second.reader(), EPOLLIN, [&](uint32_t) {
    ++calls;
    loop.unwatch(first.reader());
    loop.unwatch(second.reader());
  });
  first.write();
  second.write();
  loop.run_once(Duration::seconds(1));
  loop.run_once(Duration());
  EXPECT_EQ(calls, 1);
}

TEST(Loop, StopFromAnotherThread_RunReturns) {
  Loop loop;
  std::thread stopper([&loop] { loop.stop(); });
  loop.run();
  stopper.join();
}

}  // namespace
}  // namespace paceline::os
