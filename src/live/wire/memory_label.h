// Labels of shared memory, as /proc shows them: by these an onlooker tells a rank's memfds apart.
#pragma once

namespace paceline::wire {

inline constexpr const char* kRingLabel = "paceline-ring";          // made by the agent
inline constexpr const char* kSnapshotLabel = "paceline-snapshot";  // a donor's copy of its state
inline constexpr const char* kReceivedLabel = "paceline-received";  // a joiner's, as it comes in

}  // namespace paceline::wire
