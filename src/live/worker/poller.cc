#include "live/worker/poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace paceline::worker {

Result<Poller> Poller::make() {
  os::Descriptor set(::epoll_create1(EPOLL_CLOEXEC));
  os::Descriptor wakeup(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!set.is_open() || !wakeup.is_open())
    return Failure{ErrorCode::Io, str("epoll: ", std::strerror(errno))};
  return Poller(std::move(set), std::move(wakeup));
}

Poller::Poller(os::Descriptor set, os::Descriptor wakeup)
    : set_(std::move(set)), wakeup_(std::move(wakeup)) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kWakeup}};
  CHECK(::epoll_ctl(set_.get(), EPOLL_CTL_ADD, wakeup_.get(), &event) == 0, std::strerror(errno));
}

Poller::Key Poller::add(int descriptor, uint32_t events) {
  const Key key = next_key_++;
  epoll_event event{.events = events, .data = {.u64 = key}};
  CHECK(::epoll_ctl(set_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0, std::strerror(errno));
  return key;
}

void Poller::change(Key key, int descriptor, uint32_t events) {
  epoll_event event{.events = events, .data = {.u64 = key}};
  CHECK(::epoll_ctl(set_.get(), EPOLL_CTL_MOD, descriptor, &event) == 0, std::strerror(errno));
}

void Poller::remove(int descriptor) { ::epoll_ctl(set_.get(), EPOLL_CTL_DEL, descriptor, nullptr); }

std::vector<Poller::Event> Poller::wait(Duration limit) {
  std::array<epoll_event, 64> ready{};
  // Rounded up: a wait that ends just before its deadline would be followed by empty ones.
  const int64_t milliseconds = (std::max<int64_t>(limit.in_nanoseconds(), 0) + 999'999) / 1'000'000;
  const int count = ::epoll_wait(set_.get(), ready.data(), static_cast<int>(ready.size()),
                                 static_cast<int>(std::min<int64_t>(milliseconds, 1000)));
  std::vector<Event> events;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = ready[static_cast<size_t>(i)];
    if (event.data.u64 == kWakeup) {
      uint64_t ignored = 0;
      [[maybe_unused]] const ssize_t size = ::read(wakeup_.get(), &ignored, sizeof ignored);
    } else {
      events.push_back({event.data.u64, event.events});
    }
  }
  return events;
}

void Poller::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t size = ::write(wakeup_.get(), &one, sizeof one);
}

}  // namespace paceline::worker
