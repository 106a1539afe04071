// The messages of the explored job. A reduction is abstracted to what it does with contributions:
// each member sends its own to every other, and a sum is there when all have arrived.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "base/hash.h"
#include "core/model/control_message.h"

namespace paceline::explore {

// A member's contribution to one bucket. The ghost fields are not known to the cores: which
// micro-batches are in the accumulator, and for which turn (at which scales) they were computed.
struct Contribution {
  EpochNumber epoch;
  Turn turn;
  BucketId bucket;
  uint64_t tag = 0;
  uint8_t ghost_micro_batches = 0;
  Turn ghost_turn;
};

// To the controller: the rank is in this epoch; the rank has left.
struct Entered {
  EpochNumber epoch;
};
struct HasLeft {};

using Message = std::variant<Contribution, Vote, Announce, Prepare, Activate, Out, PrepareReport,
                             Entered, HasLeft>;

Message message_of(const ControlMessage& message);
ControlMessage control_of(const Message& message);
uint64_t digest_of(const Message& message);
std::string describe(const Message& message);

}  // namespace paceline::explore
