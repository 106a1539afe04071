// The collective operations, and the record by which members see whether they mean the same one.
#pragma once

#include <cstdint>
#include <ostream>
#include <string_view>

#include "core/fabric/element.h"

namespace paceline::fabric {

enum class Operation : uint8_t { AllReduce, ReduceScatter, AllGather, Broadcast, Barrier };
inline constexpr Operation kOperations[] = {Operation::AllReduce, Operation::ReduceScatter,
                                            Operation::AllGather, Operation::Broadcast,
                                            Operation::Barrier};

constexpr std::string_view name_of(Operation operation) {
  constexpr std::string_view kNames[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast",
                                         "barrier"};
  return kNames[static_cast<size_t>(operation)];
}

// What a member calls. Equal on all members of a group for the same call, or it is a bug of the
// program that must be named.
struct CallRecord {
  // Of the message: of the whole one for all-reduce and broadcast, of one member's share for
  // reduce-scatter and all-gather.
  uint64_t elements = 0;
  Operation operation = Operation::Barrier;
  ElementType type = ElementType::F32;
  Reduction reduction = Reduction::Sum;
  uint8_t reserved = 0;
  uint32_t root = 0;

  bool operator==(const CallRecord&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const CallRecord& call) {
    out << name_of(call.operation);
    if (call.operation == Operation::Barrier) return out;
    const bool reduces =
        call.operation == Operation::AllReduce || call.operation == Operation::ReduceScatter;
    if (reduces) out << " (" << name_of(call.reduction) << ")";
    if (call.operation == Operation::Broadcast) out << " from " << call.root;
    return out << " of " << call.elements << " " << name_of(call.type);
  }
};
static_assert(sizeof(CallRecord) == 16);

}  // namespace paceline::fabric
