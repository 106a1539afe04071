// ControllerCalls: the calls of a controller that have one answer. Includes gRPC, so only for .cc
// files.
//
// What arrives is checked and decoded where it arrives, and handed to the loop, where the handler
// acts; then it is answered. Every call is answered once: by the loop, by a refusal, or because the
// server ends.
//
// Threads: request_first() on the loop's thread, before anything arrives.
#pragma once

#include <functional>
#include <string>

#include "live/os/mutex.h"
#include "live/rpc/controller_server.h"
#include "live/rpc/server_call.h"
#include "live/rpc/server_queue.h"
#include "paceline.grpc.pb.h"

namespace paceline::rpc {

class ControllerCalls {
 public:
  using Service = proto::Controller::AsyncService;
  // Has a function run on the loop, unless the server is gone by then. False if it is refused.
  using Post = std::function<bool(std::function<void()>)>;

  // All must outlive the calls of `queue`.
  ControllerCalls(ServerQueue& queue, Service& service, const std::string& token, Post post,
                  ControllerHandler& handler)
      : queue_(queue),
        service_(service),
        token_(token),
        post_(std::move(post)),
        handler_(handler) {}

  // One call of each kind is asked for, always: the next when it has arrived.
  void request_first() EXCLUDES(mutex_);
  // None is asked for any more, and those that arrive yet are ended.
  void end() EXCLUDES(mutex_);

 private:
  // What the loop does for a call.
  using Act = std::function<Status()>;
  template <class Request>
  using Prepare = Result<Act> (ControllerCalls::*)(const Request&);

  template <class Request, class Reply>
  void request(typename UnaryCall<Request, Reply>::Method method, Prepare<Request> prepare)
      EXCLUDES(mutex_);

  Result<Act> submit(const proto::SubmitRequest& request);
  Result<Act> stop(const proto::StopRequest& request);
  Result<Act> set_recovery(const proto::SetRecoveryRequest& request);
  Result<Act> ping(const proto::PingRequest& request);

  void hand_over(AnsweredCall& call, Act act) EXCLUDES(mutex_);
  void answered_one() EXCLUDES(mutex_);

  ServerQueue& queue_;
  Service& service_;
  const std::string token_;
  const Post post_;
  ControllerHandler& handler_;

  os::Mutex mutex_;
  int unanswered_ GUARDED_BY(mutex_) = 0;
  bool is_ending_ GUARDED_BY(mutex_) = false;
};

}  // namespace paceline::rpc
