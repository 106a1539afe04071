// Roster: the hosts and slots of a job, and what is known of each. Plain data with lookups; the
// rules are in controller_*.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/model/epoch.h"
#include "core/model/host_message.h"
#include "core/model/ids.h"

namespace paceline::control {

enum class HostState : uint8_t {
  Ready,  // its agent reports what is
  Lost,   // given up; used again once its agent has reported it clean
};

struct Host {
  HostId id;
  std::string name;
  uint32_t address = 0;
  uint64_t agent_instance = 0;
  bool is_connected = false;
  bool is_spare = false;
  HostState state = HostState::Ready;
  Instant last_heard;
  uint64_t desired_sequence = 0;
  std::set<RankId> present;  // processes that its agent has reported and not yet reported ended
};

enum class SlotState : uint8_t {
  Empty,     // no process, and none is wanted now
  Starting,  // desired, not heard of
  Up,        // has said hello; waits for the first epoch or for a Heal
  Healing,
  Level,  // holds the members' state; waits to be announced
  Member,
  Ending,  // lost, left out or dying: its process is not yet known to have ended
  Done,    // waits in finalize, or has left in order
};

struct Slot {
  SlotId id;
  HostId host;
  Incarnation incarnation;  // 0: never had a process
  SlotState state = SlotState::Empty;
  bool is_joiner = false;
  Endpoint endpoint;
  int64_t process_id = 0;
  uint32_t heal_attempt = 0;
  uint32_t restarts = 0;  // since it last made progress
  Step step_at_start;     // the job's step when this process was asked for
  std::optional<Instant> restart_at;
  uint64_t state_digest = 0;
  std::optional<uint32_t> incident;  // open, about this process

  RankId rank() const { return {id, incarnation}; }
  bool is_alive() const { return state != SlotState::Empty && state != SlotState::Ending; }
};

class Roster {
 public:
  std::map<HostId, Host> hosts;
  std::map<SlotId, Slot> slots;

  // The slot whose present process is `rank`.
  Slot* find(RankId rank) {
    const auto found = slots.find(rank.slot);
    return found != slots.end() && found->second.incarnation == rank.incarnation ? &found->second
                                                                                 : nullptr;
  }
  std::vector<Slot*> on_host(HostId host) {
    std::vector<Slot*> found;
    for (auto& [id, slot] : slots)
      if (slot.host == host) found.push_back(&slot);
    return found;
  }
  Member member_of(const Slot& slot) const { return {slot.rank(), slot.host, slot.endpoint}; }
};

}  // namespace paceline::control
