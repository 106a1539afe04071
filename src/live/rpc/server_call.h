// One call with one answer. Includes gRPC, so only for .cc files.
//
// Life: it is asked for (request), arrives, is answered by whoever is first to do so, and is over
// when gRPC has sent the answer, or could not. A caller that is gone is answered like any other.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "live/os/mutex.h"
#include "live/rpc/channel.h"
#include "live/rpc/server_queue.h"
#include "paceline.grpc.pb.h"

namespace paceline::rpc {

// Without the types of request and answer.
class AnsweredCall : public ServerCall, public std::enable_shared_from_this<AnsweredCall> {
 public:
  virtual const grpc::ServerContext& context() const = 0;
  // Only the first answer counts.
  virtual void answer(const grpc::Status& status) = 0;
};

template <class Request, class Reply>
class UnaryCall final : public AnsweredCall {
 public:
  using Service = proto::Controller::AsyncService;
  // How gRPC is asked for the next call of this kind.
  using Method = void (Service::*)(grpc::ServerContext*, Request*,
                                   grpc::ServerAsyncResponseWriter<Reply>*, grpc::CompletionQueue*,
                                   grpc::ServerCompletionQueue*, void*);
  using Arrived = std::function<void(UnaryCall&)>;

  explicit UnaryCall(Arrived arrived) : arrived_(std::move(arrived)) {}

  void request(Service& service, Method method, grpc::ServerCompletionQueue* events) {
    (service.*method)(&context_, &request_, &responder_, events, events, &arrive_);
  }

  const Request& asked() const { return request_; }
  const grpc::ServerContext& context() const override { return context_; }

  void answer(const grpc::Status& status) override EXCLUDES(mutex_) {
    const os::MutexLock lock(mutex_);
    answer_locked(status);
  }
  void end() override EXCLUDES(mutex_) {
    const os::MutexLock lock(mutex_);
    if (has_arrived_) answer_locked({grpc::StatusCode::UNAVAILABLE, "the controller ends"});
  }

  bool take(Operation operation, bool is_good) override EXCLUDES(mutex_) {
    if (operation == Operation::Arrive) {
      if (!is_good) return true;
      {
        const os::MutexLock lock(mutex_);
        has_arrived_ = true;
      }
      arrived_(*this);
    }
    const os::MutexLock lock(mutex_);
    return --pending_ == 0;
  }

 private:
  void answer_locked(const grpc::Status& status) REQUIRES(mutex_) {
    if (is_answered_) return;
    is_answered_ = true;
    if (status.ok())
      responder_.Finish(Reply(), status, &finish_);
    else
      responder_.FinishWithError(status, &finish_);
  }

  OperationTag arrive_{this, Operation::Arrive};
  OperationTag finish_{this, Operation::Finish};
  const Arrived arrived_;
  grpc::ServerContext context_;
  Request request_;
  grpc::ServerAsyncResponseWriter<Reply> responder_{&context_};

  os::Mutex mutex_;
  bool has_arrived_ GUARDED_BY(mutex_) = false;
  bool is_answered_ GUARDED_BY(mutex_) = false;
  // Arrive and Finish. The answer may be over on one thread before arrived_ returns on another.
  int pending_ GUARDED_BY(mutex_) = 2;
};

}  // namespace paceline::rpc
