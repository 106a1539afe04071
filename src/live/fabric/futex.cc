#include "live/fabric/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace paceline::fabric {

static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free);

// Not the private forms: the word is shared between processes.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t value, Duration limit) {
  const timespec timeout = {.tv_sec = limit.in_nanoseconds() / 1'000'000'000,
                            .tv_nsec = limit.in_nanoseconds() % 1'000'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &timeout, nullptr, 0);
}

void futex_wake_all(const std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace paceline::fabric
