// SupervisedRank: what the agent knows of one rank, from its spawn until no Desired names it.
//
//   Starting --(spawned)--> Alive --(bell)--> Dying --(reaped)--> Ended
//                             +-------------------(reaped)---------^
//
// It also remembers everything about the rank that the controller must learn sooner or later: a
// stream may break with messages under way, and nobody can tell which have arrived. So nothing is
// queued for later; facts() states it all again, and repeating a fact changes nothing at the
// controller.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/agent/agent_event.h"
#include "core/model/host_message.h"

namespace paceline::agent {

// Of a rank's output, kept for the report of its end.
inline constexpr size_t kLastLines = 20;
inline constexpr size_t kLastLinesBytes = 2048;

class SupervisedRank {
 public:
  enum class Life : uint8_t { Starting, Alive, Dying, Ended };

  explicit SupervisedRank(const DesiredRank& desired) : desired_(desired) {}

  void spawned(int64_t process_id);
  void spawn_failed(const SpawnFailed& failure);
  // Takes what the rank says, completes it, and returns what the controller should hear.
  HostEvent said(RankMessage message, uint32_t host_address);
  // False if it was known to be dying or ended before.
  bool bell_rang(const RankView& view);
  void ended(const ProcessEnded& end);
  void output(const std::vector<std::string>& lines);
  // True if the rank has committed since it was seen last.
  bool seen(const RankView& view);
  void ended_by_agent() { was_ended_by_agent_ = true; }
  // Its group has been asked to end, and is ended then.
  void end_at(std::optional<Instant> when) { end_at_ = when; }

  RankId id() const { return desired_.rank; }
  Life life() const { return life_; }
  bool has_process() const { return life_ == Life::Alive || life_ == Life::Dying; }
  // Listens to its agent: it has said hello and has not begun to end.
  bool is_up() const { return is_up_ && life_ == Life::Alive; }
  bool was_ended_by_agent() const { return was_ended_by_agent_; }
  std::optional<Instant> end_at() const { return end_at_; }

  RankPresence presence() const;
  // The end of the rank as far as it has come. REQUIRES: Dying or Ended.
  HostEvent end_report() const;
  // Everything that a controller needs to hear beside presence(), in an order that makes sense.
  std::vector<HostEvent> facts() const;

 private:
  DesiredRank desired_;
  Life life_ = Life::Starting;
  int64_t process_id_ = 0;
  bool is_up_ = false;
  bool was_ended_by_agent_ = false;
  std::optional<Instant> end_at_;
  Endpoint endpoint_;
  EpochNumber epoch_;  // it has said that it is in
  RankView view_;      // newest
  std::deque<std::string> last_lines_;
  size_t last_lines_bytes_ = 0;

  std::optional<RankDone> done_;
  std::optional<HealProgress> heal_;
  std::optional<TagTrouble> tag_trouble_;       // of the running turn
  std::map<RankId, PeerTrouble> peer_trouble_;  // of the running epoch, by peer
  std::optional<SpawnFailed> failure_;
  std::optional<ProcessEnded> end_;
};

}  // namespace paceline::agent
