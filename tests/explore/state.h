// A state of the explored job: numbers of interned ranks, controllers and queues, ghosts, budgets
// used. Compared and hashed as bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

#include "config.h"

namespace paceline::explore {

enum class Status : uint8_t { Absent, Up, Frozen, Dead, Left };

struct State {
  std::array<uint32_t, kRanks> rank{};  // 0: has ended, or is absent
  uint32_t controller = 0;              // 0: is down
  uint32_t journal = 0;
  std::array<std::array<uint32_t, kRanks>, kRanks> data{};  // queues by sender, then receiver
  std::array<uint32_t, kRanks> to_rank{};                   // queues from the controller
  std::array<uint32_t, kRanks> to_controller{};
  uint32_t copy = 0;  // a message of which a copy is still under way; 0: none
  std::array<Status, kRanks> status{};
  // Ghost of S1: the epoch in which the sums of each committed turn were reduced, that is the exact
  // bits in `fast` mode. 0: not committed.
  std::array<uint8_t, kMaxTurns> sums_epoch{};
  uint8_t kills = 0, freezes = 0, cuts = 0, crashes = 0, links = 0, duplicates = 0, plans = 0;
  uint8_t cut = 0;     // bit per rank: no stream to the controller
  uint8_t broken = 0;  // bit per pair of ranks: their connection is lost, in the running epoch
  uint8_t copy_rank = 0;
  uint8_t is_copy_upward = 0;
  uint8_t unused = 0;
};
static_assert(std::has_unique_object_representations_v<State>, "hashed as bytes");

enum class ActionKind : uint8_t {
  Begin,
  Accumulate,
  TakeData,
  RefuseNewer,
  TakeControl,
  TakeControlLeavingCopy,
  TakeReport,
  TakeReportLeavingCopy,
  ApplySums,
  LearnEpoch,
  Die,
  Freeze,
  Thaw,
  Suspect,
  Heal,
  DeclareLost,
  SeeAgain,
  EndStray,
  Repeat,
  CopyArrives,
  Cut,
  LoseConnection,
  HearOfConnection,
  Announce,
  Crash,
  Restart,
  CrashAndRestart,
};

// `peer`: the other rank; of Die: bits of the receivers that lose what is under way; of Cut: bits
// of the ranks.
struct Action {
  ActionKind kind;
  uint8_t rank = 0;
  uint8_t peer = 0;
};

inline bool is_fault(ActionKind kind) {
  switch (kind) {
    case ActionKind::TakeControlLeavingCopy:
    case ActionKind::TakeReportLeavingCopy:
    case ActionKind::Die:
    case ActionKind::Freeze:
    case ActionKind::Thaw:
    case ActionKind::Suspect:
    case ActionKind::Heal:
    case ActionKind::CopyArrives:
    case ActionKind::Cut:
    case ActionKind::LoseConnection:
    case ActionKind::Announce:
    case ActionKind::Crash:
    case ActionKind::CrashAndRestart:
      return true;
    default:
      return false;
  }
}

struct Violation {
  std::string what;
};

}  // namespace paceline::explore
