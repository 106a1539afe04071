// The server's end of one stream, of an agent or a watcher. Includes gRPC, so only for .cc files.
//
// Life: made by a gRPC thread when the call arrives; ended by finish() or by the peer; done when
// gRPC has no operation of it left (OnDone), after which nothing of gRPC may be touched and the
// object only waits for its last owner. gRPC's reactions may come on any of its threads; the mutex
// orders them against send() from the loop, so that no operation is started after Finish.
#pragma once

#include <memory>
#include <utility>

#include "live/os/mutex.h"
#include "live/rpc/channel.h"
#include "live/rpc/controller_server.h"
#include "live/rpc/outgoing_queue.h"
#include "paceline.grpc.pb.h"

namespace paceline::rpc {

// What a stream tells its server, on gRPC's threads.
class StreamListener {
 public:
  virtual ~StreamListener() = default;
  // False if the server cannot take it now: the stream is ended.
  virtual bool stream_said(StreamId stream, HostEvent event) = 0;
  // The last word of a stream.
  virtual void stream_done(StreamId stream) = 0;
};

// What both kinds have: a queue of outgoing messages, and one end. `Reactor` is the gRPC base.
template <class Reactor, class Message>
class ServerStream : public Reactor {
 public:
  ServerStream(StreamId id, grpc::CallbackServerContext& context, StreamListener& listener)
      : id_(id), context_(context), listener_(listener) {}

  // Ignored when the stream is ending.
  void send(Message message) EXCLUDES(mutex_) {
    const os::MutexLock lock(mutex_);
    if (has_finished_ || has_finish_) return;
    if (!queue_.push(std::move(message))) return give_up("it does not read what is sent to it");
    write_next();
  }

  // Ends the stream, after what is queued.
  void finish(grpc::Status status) EXCLUDES(mutex_) {
    const os::MutexLock lock(mutex_);
    finish_locked(std::move(status));
  }
  // Ends it now, whatever is queued and whether the peer reads or not.
  void abort() EXCLUDES(mutex_) {
    const os::MutexLock lock(mutex_);
    give_up("the controller ends");
  }

  void OnWriteDone(bool is_good) override EXCLUDES(mutex_) {
    const os::MutexLock lock(mutex_);
    queue_.wrote_first();
    if (!is_good) finish_now(grpc::Status(grpc::StatusCode::CANCELLED, "the stream is lost"));
    write_next();
  }
  void OnCancel() override EXCLUDES(mutex_) {
    const os::MutexLock lock(mutex_);
    finish_now(grpc::Status(grpc::StatusCode::CANCELLED, "the stream is lost"));
  }
  void OnDone() override {
    listener_.stream_done(id_);
    self_.reset();  // may destroy this
  }

  StreamId id() const { return id_; }
  // Keeps the stream alive until OnDone.
  void keep(std::shared_ptr<ServerStream> self) { self_ = std::move(self); }

 protected:
  void finish_locked(grpc::Status status) REQUIRES(mutex_) {
    if (has_finished_ || has_finish_) return;
    has_finish_ = true;
    finish_status_ = std::move(status);
    write_next();
  }
  void give_up(const char* why) REQUIRES(mutex_) {
    if (has_finished_) return;
    context_.TryCancel();
    finish_now(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, why));
  }
  bool has_finished() const REQUIRES(mutex_) { return has_finished_; }

  const StreamId id_;
  grpc::CallbackServerContext& context_;
  StreamListener& listener_;
  os::Mutex mutex_;

 private:
  void write_next() REQUIRES(mutex_) {
    if (has_finished_) return;
    if (has_finish_ && queue_.is_empty()) return finish_now(finish_status_);
    if (const Message* const message = queue_.begin_write()) this->StartWrite(message);
  }
  void finish_now(grpc::Status status) REQUIRES(mutex_) {
    if (has_finished_) return;
    has_finished_ = true;
    this->Finish(std::move(status));
  }

  std::shared_ptr<ServerStream> self_;
  OutgoingQueue<Message> queue_ GUARDED_BY(mutex_);
  grpc::Status finish_status_ GUARDED_BY(mutex_);
  bool has_finish_ GUARDED_BY(mutex_) = false;    // finish() was called; the queue is written first
  bool has_finished_ GUARDED_BY(mutex_) = false;  // Finish was called
};

using WatcherStream = ServerStream<grpc::ServerWriteReactor<proto::WatchEvent>, proto::WatchEvent>;

// Reads as long as the loop keeps up: at most kMaxUnhandled messages are on their way to it.
class AgentServerStream final
    : public ServerStream<grpc::ServerBidiReactor<proto::AgentMessage, proto::AgentCommand>,
                          proto::AgentCommand> {
 public:
  using ServerStream::ServerStream;

  void start() EXCLUDES(mutex_);
  // The loop has dealt with one message.
  void handled() EXCLUDES(mutex_);

  void OnReadDone(bool is_good) override EXCLUDES(mutex_);

 private:
  void read_next() REQUIRES(mutex_);

  proto::AgentMessage incoming_;
  bool is_reading_ GUARDED_BY(mutex_) = false;
  int unhandled_ GUARDED_BY(mutex_) = 0;
};

}  // namespace paceline::rpc
