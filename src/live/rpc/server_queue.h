// ServerQueue: what gRPC has done for all calls of one server, and the thread that takes it.
//
// gRPC's reactors would come with two threads that take turns at polling and wake each other for
// every message, which costs a controller more than the message. Here one completion queue has one
// thread of its own.
//
// Life: serve -> calls are added -> the server ends, and with it every call -> drain. gRPC forbids
// to start an operation once its queue is shut down, so drain() waits for the last call first.
//
// Threads: serve() and drain() on the loop's thread, the rest on any. A call's take() runs on the
// queue's thread or on one that is in begin(), and for two operations of one call at the same time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <thread>

#include "base/time.h"
#include "live/os/mutex.h"
#include "live/rpc/channel.h"

namespace paceline::rpc {

// What gRPC may have to do for a call. Done: the call is over for gRPC, whoever ended it.
enum class Operation : uint8_t { Arrive, Welcome, Read, Write, Finish, Done };

class ServerCall {
 public:
  virtual ~ServerCall() = default;
  // `operation` is over. True if it was the last, and the call may be destroyed.
  virtual bool take(Operation operation, bool is_good) = 0;
  // The server ends. A call that has not arrived is left to gRPC.
  virtual void end() = 0;
};

// What gRPC gets for an operation and gives back when it is over.
struct OperationTag {
  ServerCall* call;
  Operation operation;
};

class ServerQueue {
 public:
  explicit ServerQueue(std::unique_ptr<grpc::ServerCompletionQueue> events)
      : events_(std::move(events)) {}
  // REQUIRES: never served, or drained.
  ~ServerQueue();

  void serve();
  // REQUIRES: no call is added any more and gRPC's server is shut down.
  void drain() EXCLUDES(mutex_);

  grpc::ServerCompletionQueue* events() { return events_.get(); }

  // Keeps the call until its last operation is over.
  void add(std::shared_ptr<ServerCall> call) EXCLUDES(mutex_);
  void end_calls() EXCLUDES(mutex_);

  // Runs `start`, which starts an operation, and takes what is over then: most writes are over when
  // they have begun, and the queue's thread sleeps on. That may be an operation of another call, or
  // a call that arrives, but is one at most. REQUIRES: the caller holds no lock that a call's
  // take() takes; `start` must have given its own back when it returns.
  template <class Start>
  void begin(const Start& start) {
    void* tag = nullptr;
    bool is_good = false;
    const grpc::CompletionQueue::NextStatus next =
        events_->DoThenAsyncNext(start, &tag, &is_good, gpr_inf_past(GPR_CLOCK_MONOTONIC));
    if (next == grpc::CompletionQueue::GOT_EVENT) take(tag, is_good);
  }

 private:
  void run();
  void take(void* tag, bool is_good) EXCLUDES(mutex_);

  const std::unique_ptr<grpc::ServerCompletionQueue> events_;

  os::Mutex mutex_;
  os::Condition is_empty_;
  // Shared with the loop, which may be sending on a stream that ends.
  std::map<const ServerCall*, std::shared_ptr<ServerCall>> calls_ GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace paceline::rpc
