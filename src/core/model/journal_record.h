// What the controller must remember to decide safely after a restart. Appended and synced before
// anything that follows from it is sent. Telemetry and what is known of losses are learned again.
#pragma once

#include <variant>

#include "core/model/epoch.h"

namespace paceline {

// The number is used: a Prepare under it may be under way.
struct PrepareStarted {
  EpochNumber number;
  bool operator==(const PrepareStarted&) const = default;
};
// A planned epoch, with the number that it takes: it may come into force at any commit.
struct EpochAnnounced {
  Epoch epoch;
  bool operator==(const EpochAnnounced&) const = default;
};
// The decision of a Prepare. What was announced before is void.
struct EpochDecided {
  Epoch epoch;
  bool operator==(const EpochDecided&) const = default;
};
// Every member of the announced epoch is known to be in it: no older one is in force.
struct EpochSettled {
  EpochNumber number;
  bool operator==(const EpochSettled&) const = default;
};
using MembershipRecord = std::variant<PrepareStarted, EpochAnnounced, EpochDecided, EpochSettled>;

}  // namespace paceline
