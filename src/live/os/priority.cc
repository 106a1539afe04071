#include "live/os/priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace paceline::os {
namespace {

// sched_setattr(2); glibc 2.36 has neither the call nor the structure.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t niceness = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;  // of a fair class: its slice
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};

}  // namespace

int raise_priority() {
  constexpr int kDaemonNiceness = -10;
  const int before = ::getpriority(PRIO_PROCESS, 0);
  if (before > kDaemonNiceness) ::setpriority(PRIO_PROCESS, 0, kDaemonNiceness);
  return before;
}

void prefer_short_slices() {
  constexpr uint64_t kShortestNs = 100'000;
  constexpr int kCallingThread = 0;
  SchedulingAttributes attributes;
  if (::syscall(SYS_sched_getattr, kCallingThread, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;  // somebody has chosen
  attributes.runtime_ns = kShortestNs;
  ::syscall(SYS_sched_setattr, kCallingThread, &attributes, 0);
}

void lower_thread_priority() {
  constexpr int kQuarterOfACore = 5;  // beside one thread of the usual priority
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kQuarterOfACore);
}

}  // namespace paceline::os
