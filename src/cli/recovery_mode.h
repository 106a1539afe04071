// The modes of recovery, as users write them.
#pragma once

#include <string>

#include "core/model/job.h"

namespace paceline::cli {

// REQUIRES: one of act, observe and off.
inline RecoveryMode recovery_mode_of(const std::string& name) {
  if (name == "off") return RecoveryMode::Off;
  return name == "observe" ? RecoveryMode::Observe : RecoveryMode::Act;
}

}  // namespace paceline::cli
