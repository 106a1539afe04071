// RankSocket: the agent's end of the socket pair to one rank, records in both directions.
//
// Never blocks: a rank that does not read (stopped, hung) fills its own bounded queue, and what
// does not fit is dropped. The controller repeats what is not answered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/result.h"
#include "core/agent/agent_event.h"
#include "live/os/descriptor.h"

namespace paceline::agent {

class RankSocket {
 public:
  static constexpr size_t kMaxQueuedRecords = 1024;
  static constexpr size_t kMaxQueuedBytes = 8u << 20;

  // Both ends. `theirs` is for the rank's process; close it once that has been started.
  struct Pair;
  static Result<Pair> make(RankId rank);

  int descriptor() const { return descriptor_.get(); }
  // The rank's process has closed its end, or it is broken: nothing more comes.
  bool has_ended() const { return has_ended_; }

  // False if the record was dropped.
  bool send(const RankOrder& order);
  // Since the rank took something last.
  uint64_t dropped_count() const { return dropped_; }
  bool has_queued() const { return !queue_.empty(); }
  void flush();  // what is queued, as far as the rank takes it

  // Everything that the rank has said, at most kMaxReadAtOnce records.
  // Records that do not decode are left out and counted.
  static constexpr size_t kMaxReadAtOnce = 256;
  std::vector<RankMessage> receive();
  uint64_t refused_count() const { return refused_; }

 private:
  RankSocket(RankId rank, os::Descriptor descriptor)
      : rank_(rank), descriptor_(std::move(descriptor)) {}
  enum class Outcome : uint8_t { Sent, WouldBlock, Failed };
  Outcome send_now(const std::vector<std::byte>& record);

  RankId rank_;
  os::Descriptor descriptor_;
  std::deque<std::vector<std::byte>> queue_;
  size_t queued_bytes_ = 0;
  uint64_t dropped_ = 0;
  uint64_t refused_ = 0;
  bool has_ended_ = false;
};

struct RankSocket::Pair {
  RankSocket ours;
  os::Descriptor theirs;
};

}  // namespace paceline::agent
