// Exit codes that the controller gives a job it ends itself (all of them: docs/operations.md).
#pragma once

#include <cstdint>

namespace paceline::control {

inline constexpr int32_t kExitRequeue = 75;       // stopped in order: start it again later
inline constexpr int32_t kExitInterrupted = 130;  // stopped at once

}  // namespace paceline::control
