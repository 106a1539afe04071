// Outgoing: the one connection by which this rank sends to a peer; chunks, votes and beats share
// it, so that they arrive in the order in which they were sent.
//
//   Connecting --> Open --> Broken        A connection that was open is never made again: what was
//     |   ^                               on it may be lost, and only a new epoch can say what to
//     v   |                               send. One that never opened is tried again.
//   Retrying
//
// Frames wait in a queue that keeps what it is given to keep, and otherwise borrows the elements of
// chunks from the sum buffers and accumulators. Those do not change before the peer has received
// them (core/collective/ring.h); a quiesce destroys an object with a queue before they are used
// again.
//
// Not thread-safe: under the job's mutex.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/time.h"
#include "core/model/epoch.h"
#include "live/os/descriptor.h"
#include "live/worker/frame.h"
#include "live/worker/poller.h"

namespace paceline::worker {

inline constexpr Duration kConnectRetry = Duration::milliseconds(20);
// A host that is there answers, even when its processes do not run. The kernel itself would try for
// minutes where nothing answers.
inline constexpr Duration kConnectLimit = Duration::seconds(2);

class Outgoing {
 public:
  enum class State : uint8_t { Connecting, Retrying, Open, Broken };

  // `self` and `token` open the connection on the other side.
  struct Opening {
    RankId self;
    uint64_t token = 0;
    Channel channel = Channel::Step;
  };
  Outgoing(Poller& poller, Endpoint endpoint, Opening opening);
  ~Outgoing() { close(); }
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;

  // Starts a connection, also again after a failure.
  void connect(Instant now);
  // Queues a frame: `head` is copied, `body` is borrowed until it has been sent. `keep` owns the
  // body where nothing else is sure to: a copy that several transfers share.
  void push(const FrameHeader& header, std::span<const std::byte> head,
            std::span<const std::byte> body, std::shared_ptr<const void> keep = nullptr);
  // Writes what the kernel takes now; the rest follows when it says that it takes more.
  void flush();
  void handle(uint32_t events, Instant now);
  // The attempt to connect has failed if it is under way for too long.
  void check_attempt(Instant now);

  State state() const { return state_; }
  Poller::Key key() const { return key_; }
  Instant retry_at() const { return retry_at_; }
  bool is_idle() const { return queue_.empty(); }
  // Open, and nothing waits on it.
  bool is_at_rest() const { return state_ == State::Open && is_idle(); }
  // What waits here and nowhere else.
  size_t copied_bytes() const { return copied_bytes_; }
  // Attempts that failed before the first one that did not.
  uint32_t failed_attempts() const { return failed_attempts_; }

 private:
  struct Item {
    std::vector<std::byte> head;
    std::span<const std::byte> body;
    std::shared_ptr<const void> keep;
    size_t size() const { return head.size() + body.size(); }
  };

  void finish_connect(Instant now);
  void fail_attempt(Instant now);
  void break_off();
  void close();
  void watch(bool for_output);
  void drop_sent(size_t size_bytes);

  Poller& poller_;
  Endpoint endpoint_;
  Opening opening_;
  State state_ = State::Retrying;
  os::Descriptor socket_;
  Poller::Key key_ = 0;
  bool is_watching_output_ = false;
  Instant retry_at_;
  Instant connecting_since_;
  uint32_t failed_attempts_ = 0;
  std::deque<Item> queue_;
  size_t sent_of_first_ = 0;
  size_t copied_bytes_ = 0;
};

}  // namespace paceline::worker
