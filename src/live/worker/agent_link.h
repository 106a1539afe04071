// AgentLink: the socket to this host's agent; one record per datagram (live/wire/rank_record.h).
//
// Records that the agent is too slow to take wait in a bounded queue. An agent that does not read
// for so long that the queue overflows counts as gone. Not thread-safe: under the job's mutex.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "live/os/descriptor.h"
#include "live/wire/rank_record.h"
#include "live/worker/poller.h"

namespace paceline::worker {

inline constexpr size_t kMaxQueuedRecords = 4096;

class AgentLink {
 public:
  AgentLink(Poller& poller, os::Descriptor socket);
  ~AgentLink();
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;

  void send(const wire::RankRecord& record);
  // Everything that has arrived. A malformed record is dropped: the agent repeats what matters.
  std::vector<wire::AgentRecord> receive();
  void flush();

  Poller::Key key() const { return key_; }
  bool is_gone() const { return is_gone_; }

 private:
  void lose();
  void watch(bool for_output);

  Poller& poller_;
  os::Descriptor socket_;
  Poller::Key key_;
  bool is_gone_ = false;
  bool is_watching_output_ = false;
  std::deque<std::vector<std::byte>> queue_;
  std::vector<std::byte> buffer_;
};

}  // namespace paceline::worker
