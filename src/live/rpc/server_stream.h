// The server's end of one stream, of an agent or a watcher. Includes gRPC, so only for .cc files.
//
// Life: it is asked for (request), arrives, and is ended by finish(), by giving it up or by the
// peer; it is over when gRPC has no operation of it left. The mutex orders what is over, on the
// queue's thread, against send() from the loop. Nothing is started after Finish or a cancellation,
// which wait for nobody: a write that the peer does not take fails then, and so does a read.
#pragma once

#include <memory>
#include <utility>

#include "live/os/mutex.h"
#include "live/rpc/channel.h"
#include "live/rpc/controller_server.h"
#include "live/rpc/outgoing_queue.h"
#include "live/rpc/server_queue.h"
#include "paceline.grpc.pb.h"

namespace paceline::rpc {

class AgentServerStream;
class WatcherStream;

// What a stream tells its server, on any thread of take().
class StreamListener {
 public:
  virtual ~StreamListener() = default;
  // Nobody has looked at its token yet.
  virtual void stream_arrived(AgentServerStream& stream) = 0;
  virtual void stream_arrived(WatcherStream& stream) = 0;
  // False if the server cannot take it now: the stream is ended.
  virtual bool stream_said(StreamId stream, HostEvent event) = 0;
  // The last word of a stream that was let in.
  virtual void stream_done(StreamId stream) = 0;
};

// What both kinds have: a queue of outgoing messages, and one end. `Call` is gRPC's end of it.
template <class Call, class Message>
class ServerStream : public ServerCall {
 public:
  using Service = proto::Controller::AsyncService;

  ServerStream(ServerQueue& events, StreamListener& listener)
      : events_(events), listener_(listener) {
    context_.AsyncNotifyWhenDone(&done_);
  }

  const grpc::ServerContext& context() const { return context_; }
  // It is let in. Without a number, the listener hears nothing more of it.
  void let_in(StreamId id) EXCLUDES(mutex_) {
    const os::MutexLock lock(mutex_);
    id_ = id;
  }

  // REQUIRES: the caller holds no lock. Ignored when the stream is ending.
  void send(Message message) EXCLUDES(mutex_) {
    {
      const os::MutexLock lock(mutex_);
      if (has_ended_ || has_finish_) return;
      if (!queue_.push(std::move(message))) return give_up();
      if (!has_started_ || queue_.is_writing()) return;
    }
    events_.begin([this] {
      const os::MutexLock lock(mutex_);
      write_next();
    });
  }

  // Ends the stream, after what is queued.
  void finish(grpc::Status status) EXCLUDES(mutex_) {
    const os::MutexLock lock(mutex_);
    finish_locked(std::move(status));
  }
  // Ends it now, whatever is queued and whether the peer reads or not.
  void end() final EXCLUDES(mutex_) {
    const os::MutexLock lock(mutex_);
    if (has_arrived_) give_up();
  }

  bool take(Operation operation, bool is_good) final EXCLUDES(mutex_) {
    handle(operation, is_good);
    StreamId id;
    {
      const os::MutexLock lock(mutex_);
      if (--pending_ > 0) return false;
      id = id_;
    }
    if (id != StreamId()) listener_.stream_done(id);
    return true;
  }

 protected:
  virtual void arrived() = 0;
  virtual void read_done(bool is_good) = 0;

  // Nothing is written before.
  void start_writing() REQUIRES(mutex_) {
    has_started_ = true;
    write_next();
  }
  // The tag for an operation that is being started.
  OperationTag* pending(OperationTag& tag) REQUIRES(mutex_) {
    ++pending_;
    return &tag;
  }
  void finish_locked(grpc::Status status) REQUIRES(mutex_) {
    if (has_ended_ || has_finish_) return;
    has_finish_ = true;
    finish_status_ = std::move(status);
    write_next();
  }
  // The peer hears of a cancellation. All that is pending fails.
  void give_up() REQUIRES(mutex_) {
    if (has_ended_) return;
    has_ended_ = true;
    context_.TryCancel();
  }
  bool has_ended() const REQUIRES(mutex_) { return has_ended_; }
  StreamId id() const REQUIRES(mutex_) { return id_; }

  ServerQueue& events_;
  StreamListener& listener_;
  OperationTag arrive_{this, Operation::Arrive};
  grpc::ServerContext context_;
  Call call_{&context_};
  os::Mutex mutex_;

 private:
  void handle(Operation operation, bool is_good) EXCLUDES(mutex_) {
    switch (operation) {
      case Operation::Arrive:
        return arrive(is_good);
      case Operation::Read:
        return read_done(is_good);
      case Operation::Write:
        return wrote(is_good);
      case Operation::Done:
        return close();
      case Operation::Welcome:
      case Operation::Finish:
        return;  // one that fails is no news: it is done, too
    }
  }
  void arrive(bool is_good) EXCLUDES(mutex_) {
    {
      const os::MutexLock lock(mutex_);
      has_arrived_ = is_good;
      if (!is_good) --pending_;  // of a call that never was, gRPC does not say Done
    }
    if (is_good) arrived();
  }
  void wrote(bool is_good) EXCLUDES(mutex_) {
    const os::MutexLock lock(mutex_);
    queue_.wrote_first();
    if (is_good) write_next();
  }
  void close() EXCLUDES(mutex_) {
    const os::MutexLock lock(mutex_);
    has_ended_ = true;
  }

  void write_next() REQUIRES(mutex_) {
    if (has_ended_) return;
    if (has_finish_ && queue_.is_empty()) {
      has_ended_ = true;
      call_.Finish(finish_status_, pending(finish_));
      return;
    }
    if (!has_started_) return;
    if (const Message* const message = queue_.begin_write()) call_.Write(*message, pending(write_));
  }

  OperationTag write_{this, Operation::Write};
  OperationTag finish_{this, Operation::Finish};
  OperationTag done_{this, Operation::Done};

  StreamId id_ GUARDED_BY(mutex_);
  OutgoingQueue<Message> queue_ GUARDED_BY(mutex_);
  grpc::Status finish_status_ GUARDED_BY(mutex_);
  // What gRPC has not given back, or take() has not dealt with. Done is expected from the start: it
  // may come before Arrive has been dealt with.
  int pending_ GUARDED_BY(mutex_) = 2;
  bool has_arrived_ GUARDED_BY(mutex_) = false;
  bool has_started_ GUARDED_BY(mutex_) = false;
  bool has_finish_ GUARDED_BY(mutex_) = false;  // finish() was called; the queue is written first
  bool has_ended_ GUARDED_BY(mutex_) = false;   // nothing may be started any more
};

class WatcherStream final
    : public ServerStream<grpc::ServerAsyncWriter<proto::WatchEvent>, proto::WatchEvent>,
      public std::enable_shared_from_this<WatcherStream> {
 public:
  using ServerStream::ServerStream;

  void request(Service& service);
  void start() EXCLUDES(mutex_);

 protected:
  void arrived() override;
  void read_done(bool is_good) override;

 private:
  proto::WatchRequest request_;
};

// Reads as long as the loop keeps up: at most kMaxUnhandled messages are on their way to it.
class AgentServerStream final
    : public ServerStream<grpc::ServerAsyncReaderWriter<proto::AgentCommand, proto::AgentMessage>,
                          proto::AgentCommand>,
      public std::enable_shared_from_this<AgentServerStream> {
 public:
  using ServerStream::ServerStream;

  void request(Service& service);
  // Tells the agent that it is let in, and reads.
  void start() EXCLUDES(mutex_);
  // The loop has dealt with one message.
  void handled() EXCLUDES(mutex_);

 protected:
  void arrived() override;
  void read_done(bool is_good) override EXCLUDES(mutex_);

 private:
  void read_next() REQUIRES(mutex_);

  OperationTag welcome_{this, Operation::Welcome};
  OperationTag read_{this, Operation::Read};
  proto::AgentMessage incoming_;
  bool is_reading_ GUARDED_BY(mutex_) = false;
  int unhandled_ GUARDED_BY(mutex_) = 0;
};

}  // namespace paceline::rpc
