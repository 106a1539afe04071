#include "live/os/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "live/os/clock.h"

namespace paceline::os {
namespace {

constexpr int kEventsPerTurn = 64;
// Without work the loop still turns so often, so that no wait is without a limit.
constexpr Duration kIdleTurn = Duration::seconds(10);

}  // namespace

Loop::Loop() : epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  CHECK(epoll_ >= 0 && wake_ >= 0, "errno ", errno);
  watch(wake_, EPOLLIN, [this](uint32_t) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(wake_, &count, sizeof count);
  });
}

Loop::~Loop() {
  ::close(wake_);
  ::close(epoll_);
}

bool Loop::post(Function function) {
  const MutexLock lock(mutex_);
  if (posted_.size() >= kMaxPosted) return false;
  posted_.push_back(std::move(function));
  // Under the lock: what is posted may be the last that its poster has to say, and running it may
  // end the loop.
  if (posted_.size() == 1) wake();
  return true;
}

void Loop::stop() {
  const MutexLock lock(mutex_);
  is_stopped_ = true;
  wake();
}

void Loop::wake() {
  // EAGAIN means that the counter is full, so that the loop is awake anyway.
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = ::write(wake_, &one, sizeof one);
}

void Loop::run() {
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (is_stopped_) return;
    }
    run_once(kIdleTurn);
  }
}

void Loop::run_once(Duration limit) {
  std::array<epoll_event, kEventsPerTurn> events{};
  const int count = epoll_wait(epoll_, events.data(), kEventsPerTurn, wait_limit_ms(limit));
  CHECK(count >= 0 || errno == EINTR, "epoll_wait: errno ", errno);
  run_ready(count, events.data());
  run_due();
  run_posted();
}

int Loop::wait_limit_ms(Duration limit) const {
  const Instant start = now();
  Instant until = start + limit;
  for (const auto& [name, timer] : timers_) until = std::min(until, timer.deadline);
  if (until <= start) return 0;
  // Rounded up: a turn that comes too early would only wait again.
  return static_cast<int>(((until - start).in_nanoseconds() + 999'999) / 1'000'000);
}

void Loop::run_ready(int count, const epoll_event* events) {
  for (int i = 0; i < count; ++i) {
    const auto found = ready_functions_.find(events[i].data.fd);
    if (found == ready_functions_.end()) continue;
    // Shared so that the function may unwatch its own descriptor while it runs.
    const std::shared_ptr<ReadyFunction> function = found->second;
    (*function)(events[i].events);
  }
}

void Loop::run_due() {
  // Only what is due now: a timer that arms itself for the past waits for the next turn.
  const Instant start = now();
  std::vector<std::pair<Instant, std::string>> due;
  for (const auto& [name, timer] : timers_)
    if (timer.deadline <= start) due.emplace_back(timer.deadline, name);
  std::sort(due.begin(), due.end());
  for (const auto& [deadline, name] : due) {
    const auto found = timers_.find(name);
    // A function before it may have disarmed it, or armed it for later.
    if (found == timers_.end() || found->second.deadline > start) continue;
    const Function function = std::move(found->second.function);
    timers_.erase(found);
    function();
  }
}

void Loop::run_posted() {
  std::vector<Function> taken;
  {
    const MutexLock lock(mutex_);
    taken.swap(posted_);
  }
  for (const Function& function : taken) function();
}

void Loop::watch(int descriptor, uint32_t events, ReadyFunction on_ready) {
  epoll_event event{};
  event.events = events;
  event.data.fd = descriptor;
  CHECK(epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) == 0, "descriptor ", descriptor,
        " errno ", errno);
  const bool is_new =
      ready_functions_.emplace(descriptor, std::make_shared<ReadyFunction>(std::move(on_ready)))
          .second;
  CHECK(is_new, "descriptor ", descriptor, " is watched already");
}

void Loop::rewatch(int descriptor, uint32_t events) {
  CHECK(ready_functions_.contains(descriptor), "descriptor ", descriptor);
  epoll_event event{};
  event.events = events;
  event.data.fd = descriptor;
  CHECK(epoll_ctl(epoll_, EPOLL_CTL_MOD, descriptor, &event) == 0, "descriptor ", descriptor,
        " errno ", errno);
}

void Loop::unwatch(int descriptor) {
  CHECK(ready_functions_.erase(descriptor) == 1, "descriptor ", descriptor, " is not watched");
  CHECK(epoll_ctl(epoll_, EPOLL_CTL_DEL, descriptor, nullptr) == 0, "descriptor ", descriptor,
        " errno ", errno);
}

void Loop::arm(std::string_view name, Instant deadline, Function function) {
  timers_.insert_or_assign(std::string(name),
                           Timer{.deadline = deadline, .function = std::move(function)});
}

void Loop::disarm(std::string_view name) {
  const auto found = timers_.find(name);
  if (found != timers_.end()) timers_.erase(found);
}

}  // namespace paceline::os
