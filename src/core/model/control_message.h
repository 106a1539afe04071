// What the controller and a rank say to each other about membership. The host's agent carries these
// messages and does not interpret them. Rule numbers are those of the protocol (docs/design/0002).
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "core/model/epoch.h"

namespace paceline {

// Controller to rank: the members will switch to this planned epoch (rule 8).
struct Announce {
  Epoch epoch;
  bool operator==(const Announce&) const = default;
};
// Controller to rank: promise to act under no older epoch, and report (rule 9).
struct Prepare {
  EpochNumber number;
  bool operator==(const Prepare&) const = default;
};
// Controller to rank: the decision of the Prepare of the same number (rule 18).
struct Activate {
  Epoch epoch;
  bool operator==(const Activate&) const = default;
};
// Controller to rank: the decision goes on without it (rule 19).
struct Out {
  EpochNumber number;
  Turn target;
  bool operator==(const Out&) const = default;
};
using ControlMessage = std::variant<Announce, Prepare, Activate, Out>;

// Rank to controller: the answer to Prepare(prepare).
struct PrepareReport {
  EpochNumber prepare;
  EpochNumber epoch;             // the epoch that it is in
  Turn committed;                // turns committed so far; the running turn has this number
  Step step = {};                // that the running turn belongs to
  bool has_voted = false;        // for turn `committed`, in `epoch`
  std::vector<MicroBatch> held;  // micro-batches of turn `committed` that it has begun; ascending
  bool operator==(const PrepareReport&) const = default;
};

// A vote for a turn, as it travels: every rank tells one peer after the other what it knows of all
// votes (see core/rank/vote_exchange.h). `carried` is the announced epoch that a vote names, 0 for
// none; low and high are the extremes over the votes merged so far, equal if all name the same.
struct Vote {
  EpochNumber epoch;
  Turn turn;
  uint8_t hop = 0;
  EpochNumber carried_low;
  EpochNumber carried_high;
  bool operator==(const Vote&) const = default;
};

}  // namespace paceline
