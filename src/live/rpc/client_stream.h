// The agent's end of one stream: one call, from its start to its end. Includes gRPC, so only for
// .cc files. AgentStream makes a new one for each attempt.
//
// It has a completion queue and one thread of its own. gRPC's reactors would come with two threads
// that take turns and wake each other for every message, which costs an agent more than the
// message. What a write does at once, send() takes itself from the queue: its thread sleeps on.
//
// Life: start -> metadata (open) -> reads and writes -> the first read fails -> finish -> done. No
// operation is started after the queue is shut down, which is when the call and the last write have
// finished; then the thread tells of the end and ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "core/model/host_message.h"
#include "live/os/mutex.h"
#include "live/rpc/channel.h"
#include "live/rpc/outgoing_queue.h"
#include "paceline.grpc.pb.h"

namespace paceline::rpc {

class ClientStream final {
 public:
  // Called on the stream's thread, or in send() or handled(); each should only post. `on_said`
  // gives false to end the stream.
  struct Listener {
    std::function<void()> on_open;
    std::function<bool(HostCommand)> on_said;
    std::function<void(const grpc::Status&)> on_done;
  };

  explicit ClientStream(Listener listener) : listener_(std::move(listener)) {}
  // REQUIRES: not started, or done, or about to be.
  ~ClientStream();

  void start(proto::Controller::Stub& stub, const std::string& token) EXCLUDES(mutex_);
  // False if the stream is lost, or given up because too much waits.
  bool send(proto::AgentMessage message) EXCLUDES(mutex_);
  // The loop has dealt with one command.
  void handled() EXCLUDES(mutex_);
  void cancel() EXCLUDES(mutex_);
  bool is_drained() EXCLUDES(mutex_);
  // Until the listener has been told of the end; false if that takes longer than `limit`.
  bool wait_done(Duration limit) EXCLUDES(mutex_);

 private:
  enum class Operation : uintptr_t { Start = 1, Metadata, Read, Write, Finish };
  static void* tag_of(Operation operation) { return reinterpret_cast<void*>(operation); }

  void run() EXCLUDES(mutex_);
  void take(Operation operation, bool is_good) REQUIRES(mutex_);
  void take_read(bool is_good) REQUIRES(mutex_);
  void read_next() REQUIRES(mutex_);
  void write_next() REQUIRES(mutex_);
  void finish() REQUIRES(mutex_);
  void shut_down_if_finished() REQUIRES(mutex_);

  grpc::ClientContext context_;
  Listener listener_;
  grpc::CompletionQueue events_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<proto::AgentMessage, proto::AgentCommand>> call_;
  proto::AgentCommand incoming_;
  grpc::Status status_;  // once finished

  os::Mutex mutex_;
  os::Condition done_;
  OutgoingQueue<proto::AgentMessage> queue_ GUARDED_BY(mutex_);
  bool is_open_ GUARDED_BY(mutex_) = false;
  bool is_cancelled_ GUARDED_BY(mutex_) = false;
  bool is_reading_ GUARDED_BY(mutex_) = false;
  bool is_writing_ GUARDED_BY(mutex_) = false;
  int unhandled_ GUARDED_BY(mutex_) = 0;
  bool is_finished_ GUARDED_BY(mutex_) = false;
  bool is_done_ GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace paceline::rpc
