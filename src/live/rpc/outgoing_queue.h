// OutgoingQueue: the messages that wait for one stream. gRPC writes one at a time and keeps a
// reference to it until it is done, so the first of the queue is the one being written.
//
// Threads: the caller locks.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

#include "base/check.h"
#include "live/rpc/channel.h"

namespace paceline::rpc {

template <class Message>
class OutgoingQueue {
 public:
  // False if it is full: the peer does not read.
  [[nodiscard]] bool push(Message message) {
    const size_t size_bytes = message.ByteSizeLong();
    if (messages_.size() >= kMaxQueuedMessages || bytes_ + size_bytes > kMaxQueuedBytes)
      return false;
    bytes_ += size_bytes;
    messages_.push_back(std::move(message));
    return true;
  }

  // What to write next, if nothing is being written and something waits. Stays valid, whatever is
  // pushed, until wrote_first().
  const Message* begin_write() {
    if (is_writing_ || messages_.empty()) return nullptr;
    is_writing_ = true;
    return &messages_.front();
  }
  void wrote_first() {
    CHECK(is_writing_ && !messages_.empty());
    is_writing_ = false;
    bytes_ -= messages_.front().ByteSizeLong();
    messages_.pop_front();
  }

  bool is_writing() const { return is_writing_; }
  bool is_empty() const { return messages_.empty(); }

 private:
  std::deque<Message> messages_;
  size_t bytes_ = 0;
  bool is_writing_ = false;
};

}  // namespace paceline::rpc
