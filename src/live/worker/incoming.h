// Incoming: one accepted connection. Until its Open frame has come it is a stranger's: no more than
// one header is read of it, and it has a deadline.
//
// A frame that its receiver is not ready for pauses the connection: the frame and what follows it
// stay where they are until resume(). So a sender that is ahead waits in its own queue.
//
// Not thread-safe: under the job's mutex.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "core/model/ids.h"
#include "live/os/descriptor.h"
#include "live/worker/frame.h"
#include "live/worker/poller.h"

namespace paceline::worker {

// What to do with a frame.
enum class FrameVerdict : uint8_t {
  Taken,
  Keep,    // not yet: the connection pauses
  Refuse,  // no rank of this job sends this: the connection ends
};

class Incoming {
 public:
  using Take =
      std::function<FrameVerdict(RankId sender, const FrameHeader&, std::span<const std::byte>)>;

  Incoming(Poller& poller, os::Descriptor socket, Instant now);
  ~Incoming();
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  // Reads and hands out frames, at most about a megabyte. False: the connection has ended.
  [[nodiscard]] bool read(uint64_t token, Instant now, const Take& take);
  // Offers the kept frame again, and those behind it.
  [[nodiscard]] bool resume(const Take& take);

  Poller::Key key() const { return key_; }
  const std::optional<RankId>& sender() const { return sender_; }
  Channel channel() const { return channel_; }
  bool is_paused() const { return is_paused_; }
  Instant opened() const { return opened_; }
  Instant last_heard() const { return last_heard_; }
  // The highest epoch of a frame that was taken.
  EpochNumber newest() const { return newest_; }
  // The observer itself was late by this much: silence counts from later.
  void forgive(Duration lateness) { last_heard_ = last_heard_ + lateness; }

 private:
  bool authenticate(uint64_t token);
  bool hand_out(const Take& take);
  void set_paused(bool is_paused);
  void make_room();

  Poller& poller_;
  os::Descriptor socket_;
  Poller::Key key_;
  Instant opened_;
  Instant last_heard_;
  EpochNumber newest_;
  std::optional<RankId> sender_;
  Channel channel_ = Channel::Step;
  bool is_paused_ = false;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0, end_ = 0;  // what is in the buffer and not handed out
};

}  // namespace paceline::worker
