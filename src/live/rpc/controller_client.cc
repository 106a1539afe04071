#include "live/rpc/controller_client.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "base/str.h"
#include "live/os/clock.h"
#include "live/os/mutex.h"
#include "live/rpc/channel.h"
#include "live/rpc/convert.h"
#include "paceline.grpc.pb.h"

namespace paceline::rpc {
namespace {

// Long enough for a controller to be started again and to read its journal.
constexpr Duration kCallLimit = Duration::seconds(10);
constexpr Duration kPauseBetweenStreams = Duration::milliseconds(20);

std::chrono::system_clock::time_point deadline_after(Duration limit) {
  return std::chrono::system_clock::now() +
         std::chrono::microseconds(std::max<int64_t>(limit.in_microseconds(), 0));
}

}  // namespace

class ControllerClient::State {
 public:
  explicit State(RpcAddress controller)
      : controller_(std::move(controller)),
        channel_(open_channel(controller_.address)),
        stub_(proto::Controller::NewStub(channel_)) {}

  // `method` is a member of the stub.
  template <class Method, class Request, class Reply>
  Status call(Method method, const Request& request, Reply* reply, Duration limit) {
    grpc::ClientContext context;
    add_token(context, controller_.token);
    context.set_deadline(deadline_after(limit));
    context.set_wait_for_ready(true);
    return from_grpc((stub_.get()->*method)(&context, request, reply));
  }

  proto::Controller::Stub& stub() { return *stub_; }

  struct Watched {
    grpc::Status status;
    bool has_heard = false;  // any event
    bool has_ended = false;  // a JobEnded
  };
  // One stream, to its end. On a channel of its own: one that has failed keeps away from a
  // controller that is back for longer than a short job lasts.
  Watched watch_once(const std::function<void(const JobEvent&)>& on_event) {
    Watched watched;
    grpc::ClientContext context;
    add_token(context, controller_.token);
    if (!begin_watch(&context)) return watched;
    const std::unique_ptr<proto::Controller::Stub> stub =
        proto::Controller::NewStub(open_channel(controller_.address));
    const std::unique_ptr<grpc::ClientReader<proto::WatchEvent>> reader =
        stub->Watch(&context, proto::WatchRequest());
    proto::WatchEvent message;
    Status broken;
    while (broken && reader->Read(&message)) {
      watched.has_heard = true;
      for (const proto::JobEvent& each : message.event()) {
        const Result<JobEvent> event = from_proto(each);
        if (!event) {
          broken = event.error();
          context.TryCancel();
          break;
        }
        on_event(*event);
        watched.has_ended = watched.has_ended || std::holds_alternative<JobEnded>(*event);
      }
    }
    watched.status = reader->Finish();
    if (!broken) watched.status = to_grpc(broken);
    end_watch();
    return watched;
  }

  void cancel_watch() {
    const os::MutexLock lock(mutex_);
    is_cancelled_ = true;
    if (watching_ != nullptr) watching_->TryCancel();
    cancelled_.notify_all();
  }
  bool is_cancelled() {
    const os::MutexLock lock(mutex_);
    return is_cancelled_;
  }
  void pause(Duration limit) {
    const os::MutexLock lock(mutex_);
    if (!is_cancelled_) cancelled_.wait_for(mutex_, limit);
  }

 private:
  bool begin_watch(grpc::ClientContext* context) {
    const os::MutexLock lock(mutex_);
    if (is_cancelled_) return false;
    watching_ = context;
    return true;
  }
  void end_watch() {
    const os::MutexLock lock(mutex_);
    watching_ = nullptr;
  }

  const RpcAddress controller_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<proto::Controller::Stub> stub_;

  os::Mutex mutex_;
  os::Condition cancelled_;
  grpc::ClientContext* watching_ GUARDED_BY(mutex_) = nullptr;
  bool is_cancelled_ GUARDED_BY(mutex_) = false;
};

ControllerClient::ControllerClient(std::unique_ptr<State> state) : state_(std::move(state)) {}
ControllerClient::~ControllerClient() = default;

Result<std::unique_ptr<ControllerClient>> ControllerClient::connect(const std::string& address,
                                                                    Duration timeout) {
  return connect(RpcAddress::with_token_from_environment(address), timeout);
}

Result<std::unique_ptr<ControllerClient>> ControllerClient::connect(const RpcAddress& address,
                                                                    Duration timeout) {
  std::unique_ptr<State> state = std::make_unique<State>(address);
  proto::PingReply reply;
  TRY(state->call(&proto::Controller::Stub::Ping, proto::PingRequest(), &reply, timeout));
  return std::unique_ptr<ControllerClient>(new ControllerClient(std::move(state)));
}

Status ControllerClient::submit(const JobSpec& spec) {
  proto::SubmitRequest request;
  *request.mutable_spec() = to_proto(spec);
  proto::SubmitReply reply;
  return state_->call(&proto::Controller::Stub::Submit, request, &reply, kCallLimit);
}

Status ControllerClient::stop(bool is_immediate) {
  proto::StopRequest request;
  request.set_is_immediate(is_immediate);
  proto::StopReply reply;
  return state_->call(&proto::Controller::Stub::Stop, request, &reply, kCallLimit);
}

Status ControllerClient::set_recovery(RecoveryMode mode, const std::string& scope) {
  proto::SetRecoveryRequest request;
  request.set_mode(static_cast<uint32_t>(mode));
  request.set_scope(scope);
  proto::SetRecoveryReply reply;
  return state_->call(&proto::Controller::Stub::SetRecovery, request, &reply, kCallLimit);
}

Status ControllerClient::watch(const WatchOptions& options,
                               const std::function<void(const JobEvent&)>& on_event) {
  Instant last_heard = os::now();
  for (;;) {
    const State::Watched watched = state_->watch_once(on_event);
    if (watched.has_ended || state_->is_cancelled()) return {};
    if (watched.status.ok())
      return Failure{ErrorCode::Unavailable, "controller: it was ended before it had a job"};
    if (watched.has_heard) last_heard = os::now();
    const grpc::StatusCode code = watched.status.error_code();
    const bool may_pass = code == grpc::StatusCode::UNAVAILABLE ||
                          code == grpc::StatusCode::CANCELLED ||
                          code == grpc::StatusCode::RESOURCE_EXHAUSTED;
    if (!may_pass || !options.is_reconnecting) return from_grpc(watched.status);
    if (os::now() - last_heard > options.patience)
      return Failure{ErrorCode::Unavailable,
                     str("controller: nothing heard for ", options.patience)};
    state_->pause(kPauseBetweenStreams);
  }
}

void ControllerClient::cancel_watch() { state_->cancel_watch(); }

}  // namespace paceline::rpc
