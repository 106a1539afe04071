#include "live/rpc/controller_calls.h"

#include <memory>
#include <utility>

#include "live/rpc/channel.h"
#include "live/rpc/convert.h"

namespace paceline::rpc {
namespace {

// Calls that the loop has not answered; more are refused. A command line has one at a time.
constexpr int kMaxUnanswered = 1000;

}  // namespace

void ControllerCalls::request_first() {
  request<proto::SubmitRequest, proto::SubmitReply>(&Service::RequestSubmit,
                                                    &ControllerCalls::submit);
  request<proto::StopRequest, proto::StopReply>(&Service::RequestStop, &ControllerCalls::stop);
  request<proto::SetRecoveryRequest, proto::SetRecoveryReply>(&Service::RequestSetRecovery,
                                                              &ControllerCalls::set_recovery);
  request<proto::PingRequest, proto::PingReply>(&Service::RequestPing, &ControllerCalls::ping);
}

void ControllerCalls::end() {
  const os::MutexLock lock(mutex_);
  is_ending_ = true;
}

template <class Request, class Reply>
void ControllerCalls::request(typename UnaryCall<Request, Reply>::Method method,
                              Prepare<Request> prepare) {
  using Call = UnaryCall<Request, Reply>;
  const os::MutexLock lock(mutex_);
  if (is_ending_) return;
  const std::shared_ptr<Call> call = std::make_shared<Call>([this, method, prepare](Call& arrived) {
    request<Request, Reply>(method, prepare);
    if (!has_token(arrived.context(), token_)) return arrived.answer(no_token());
    Result<Act> act = (this->*prepare)(arrived.asked());
    if (!act) return arrived.answer(to_grpc(act.error()));
    hand_over(arrived, std::move(act).value());
  });
  queue_.add(call);
  call->request(service_, method, queue_.events());
}

// --- What is asked

Result<ControllerCalls::Act> ControllerCalls::submit(const proto::SubmitRequest& request) {
  TRY_ASSIGN(JobSpec spec, from_proto(request.spec()));
  return Act(
      [this, taken = std::move(spec)]() mutable { return handler_.submit(std::move(taken)); });
}

Result<ControllerCalls::Act> ControllerCalls::stop(const proto::StopRequest& request) {
  return Act([this, is_immediate = request.is_immediate()] { return handler_.stop(is_immediate); });
}

Result<ControllerCalls::Act> ControllerCalls::set_recovery(
    const proto::SetRecoveryRequest& request) {
  if (request.mode() > static_cast<uint32_t>(RecoveryMode::Off))
    return Failure{ErrorCode::InvalidArgument, "no such recovery mode"};
  return Act([this, mode = static_cast<RecoveryMode>(request.mode()), scope = request.scope()] {
    return handler_.set_recovery(mode, scope);
  });
}

Result<ControllerCalls::Act> ControllerCalls::ping(const proto::PingRequest&) {
  return Act([] { return Status(); });
}

// --- The way to the loop and back

void ControllerCalls::hand_over(AnsweredCall& call, Act act) {
  {
    const os::MutexLock lock(mutex_);
    if (is_ending_) return call.end();
    if (unanswered_ == kMaxUnanswered) return call.answer(behind());
    ++unanswered_;
  }
  // Weak: what the loop never runs must not keep a call beyond gRPC's server.
  const bool is_posted = post_([this, asking = call.weak_from_this(), taken = std::move(act)] {
    const Status status = taken();
    answered_one();
    if (const std::shared_ptr<AnsweredCall> asker = asking.lock()) asker->answer(to_grpc(status));
  });
  if (is_posted) return;
  answered_one();
  call.answer(behind());
}

void ControllerCalls::answered_one() {
  const os::MutexLock lock(mutex_);
  --unanswered_;
}

}  // namespace paceline::rpc
