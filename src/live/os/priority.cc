#include "live/os/priority.h"

#include <sys/resource.h>

namespace paceline::os {

int raise_priority() {
  constexpr int kDaemonNiceness = -10;
  const int before = ::getpriority(PRIO_PROCESS, 0);
  if (before > kDaemonNiceness) ::setpriority(PRIO_PROCESS, 0, kDaemonNiceness);
  return before;
}

}  // namespace paceline::os
