// Roster: the hosts and slots of a job, and what is known of each. Plain data with lookups; the
// rules are in controller_*.cc.
//
// Slots are counted by state: most events concern ranks that train, and leave no slot to look for.
#pragma once

#include <array>
#include <cstddef>
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
  bool has_connected = false;  // in this life of the controller
  bool is_spare = false;
  HostState state = HostState::Ready;
  // Both are later by what the controller itself was blind for. The first leaves what waited
  // meanwhile the time to be read, however long the silence was; the second tells how long it is.
  Instant last_heard;
  Instant silent_since;
  std::optional<Instant> lost_at;
  uint64_t desired_sequence = 0;
  std::set<RankId> present;  // processes that its agent has reported and not yet reported ended

  void heard_at(Instant now) { last_heard = silent_since = now; }
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

// The state of a slot: read like the value, written through Roster::set.
class CountedState {
 public:
  operator SlotState() const { return value_; }

 private:
  friend class Roster;
  SlotState value_ = SlotState::Empty;
};

struct Slot {
  SlotId id;
  HostId host;
  Incarnation incarnation;  // 0: never had a process
  CountedState state;
  bool is_joiner = false;
  bool is_cold = false;  // no process is wanted until this slot is needed in another's place
  Endpoint endpoint;
  int64_t process_id = 0;
  uint32_t heal_attempt = 0;
  uint32_t heal_number = 0;            // of the newest Heal; 0: none by this life of the controller
  uint32_t restarts = 0;               // since it last made progress
  std::string unhealed_by;             // why this process could not become a member
  Step step_at_start;                  // the job's step when this process was asked for
  Turn committed;                      // by this process, as far as it is known
  uint32_t begun = 0;                  // micro-batches, since `committed`
  Instant last_beat;                   // of the library's own thread, by the host's clock
  Instant beat_at;                     // when it was seen to change
  std::optional<Turn> entered_at;      // commits that it held when it became a member
  std::optional<int32_t> failed_with;  // by the process before: SlotAssigned
  Instant assigned_at;                 // when this process was asked for
  bool is_launch_timed = false;        // by this life of the controller: `assigned_at` is exact
  std::optional<Instant> heal_asked_at;  // the newest Heal
  std::optional<Instant> restart_at;
  uint64_t state_digest = 0;
  std::optional<uint32_t> incident;  // open, about this process

  RankId rank() const { return {id, incarnation}; }
  bool is_alive() const { return state != SlotState::Empty && state != SlotState::Ending; }
  // A process that is to become a member of the running job.
  bool is_joining() const {
    return is_joiner && is_alive() && state != SlotState::Member && state != SlotState::Done;
  }
};

class Roster {
 public:
  std::map<HostId, Host> hosts;
  std::map<SlotId, Slot> slots;  // grown by add() alone

  // The slot `id`; a new one is empty.
  Slot& add(SlotId id) {
    const auto [entry, is_new] = slots.try_emplace(id);
    if (!is_new) return entry->second;
    entry->second.id = id;
    ++counts_[index_of(SlotState::Empty)];
    if (by_id_.size() <= id.value()) by_id_.resize(id.value() + 1);
    by_id_[id.value()] = &entry->second;
    return entry->second;
  }
  void set(Slot& slot, SlotState state) {
    --counts_[index_of(slot.state)];
    ++counts_[index_of(state)];
    if (state == SlotState::Ending || state == SlotState::Empty || state == SlotState::Starting)
      ++turnover_;
    slot.state.value_ = state;
  }
  uint32_t count(SlotState state) const { return counts_[index_of(state)]; }
  // Processes that were given up or asked for, in all. As long as it stays the same, so do those
  // that are alive.
  uint64_t turnover() const { return turnover_; }
  // False: no slot is joining. O(1).
  bool may_have_joining() const {
    return count(SlotState::Starting) + count(SlotState::Up) + count(SlotState::Healing) +
               count(SlotState::Level) >
           0;
  }
  // Processes that are on their way to be members.
  uint32_t count_coming() const {
    uint32_t coming = count(SlotState::Healing) + count(SlotState::Level);
    if (count(SlotState::Up) == 0) return coming;
    for (const auto& [id, slot] : slots)
      coming += slot.state == SlotState::Up && slot.is_joiner ? 1 : 0;
    return coming;
  }

  // The slot whose present process is `rank`. O(1).
  Slot* find(RankId rank) {
    Slot* slot = rank.slot.value() < by_id_.size() ? by_id_[rank.slot.value()] : nullptr;
    return slot != nullptr && slot->incarnation == rank.incarnation ? slot : nullptr;
  }
  std::vector<Slot*> on_host(HostId host) {
    std::vector<Slot*> found;
    for (auto& [id, slot] : slots)
      if (slot.host == host) found.push_back(&slot);
    return found;
  }
  Member member_of(const Slot& slot) const { return {slot.rank(), slot.host, slot.endpoint}; }

 private:
  static constexpr size_t kStates = static_cast<size_t>(SlotState::Done) + 1;
  static size_t index_of(SlotState state) { return static_cast<size_t>(state); }

  std::array<uint32_t, kStates> counts_{};
  uint64_t turnover_ = 0;
  std::vector<Slot*> by_id_;
};

}  // namespace paceline::control
