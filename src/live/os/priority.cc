#include "live/os/priority.h"

#include <sys/resource.h>
#include <unistd.h>

namespace paceline::os {

int raise_priority() {
  constexpr int kDaemonNiceness = -10;
  const int before = ::getpriority(PRIO_PROCESS, 0);
  if (before > kDaemonNiceness) ::setpriority(PRIO_PROCESS, 0, kDaemonNiceness);
  return before;
}

void lower_thread_priority() {
  constexpr int kLowest = 19;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kLowest);
}

}  // namespace paceline::os
