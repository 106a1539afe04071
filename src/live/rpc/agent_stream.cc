#include "live/rpc/agent_stream.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/str.h"
#include "live/os/clock.h"
#include "live/rpc/channel.h"
#include "live/rpc/client_stream.h"
#include "live/rpc/convert.h"

namespace paceline::rpc {
namespace {

constexpr Duration kFirstPause = Duration::milliseconds(20);
constexpr Duration kLongestPause = Duration::milliseconds(500);
// gRPC ends a cancelled call at once; longer means that it hangs.
constexpr Duration kCancelLimit = Duration::seconds(10);

}  // namespace

// Threads: the loop's. What gRPC's threads post holds a weak reference and the number of the
// attempt: what an earlier one still had to say is dropped, and the agent never takes one stream
// for another.
class AgentStream::State final : public std::enable_shared_from_this<State> {
 public:
  State(os::Loop& loop, RpcAddress controller, Callbacks callbacks)
      : loop_(loop),
        controller_(std::move(controller)),
        callbacks_(std::move(callbacks)),
        channel_(open_channel(controller_.address)),
        stub_(proto::Controller::NewStub(channel_)) {}

  void connect() {
    ++attempt_;
    stream_ = std::make_shared<ClientStream>(ClientStream::Listener{
        .on_open = [this, self = weak_from_this(),
                    attempt =
                        attempt_] { static_cast<void>(post(self, attempt, [this] { opened(); })); },
        .on_said =
            [this, self = weak_from_this(), attempt = attempt_](HostCommand command) {
              return post(self, attempt, [this, taken = std::move(command)] { said(taken); });
            },
        .on_done =
            [this, self = weak_from_this(), attempt = attempt_](const grpc::Status& status) {
              const bool is_posted = post(self, attempt, [this, status] { done(status); });
              // At most kMaxUnhandled commands of one stream wait: the loop does not run any more.
              CHECK(is_posted, "the loop is stuck");
            }});
    stream_->start(*stub_, controller_.token);
  }

  void end() {
    ++attempt_;
    loop_.disarm(timer_);
    if (stream_ == nullptr) return;
    stream_->cancel();
    CHECK(stream_->wait_done(kCancelLimit), "gRPC does not end a cancelled call");
    stream_.reset();
    is_connected_ = false;
  }

  bool is_connected() const { return is_connected_; }

  bool send(const HostEvent& event) {
    if (!is_connected_) return false;
    proto::AgentMessage message;
    *message.mutable_event() = to_proto(event);
    return stream_->send(std::move(message));
  }

  bool is_drained() const { return stream_ == nullptr || stream_->is_drained(); }

 private:
  // On gRPC's threads. `loop_` outlives every stream, because end() waits for it.
  bool post(const std::weak_ptr<State>& self, uint64_t attempt, std::function<void()> function) {
    return loop_.post([self, attempt, taken = std::move(function)] {
      const std::shared_ptr<State> state = self.lock();
      if (state != nullptr && state->attempt_ == attempt) taken();
    });
  }

  void opened() {
    is_connected_ = true;
    pause_ = kFirstPause;
    last_failure_.clear();
    callbacks_.on_connected();
  }

  void said(const HostCommand& command) {
    // gRPC tells of the metadata before the first message, so on_connected has been called.
    CHECK(is_connected_);
    callbacks_.on_command(command);
    if (stream_ != nullptr) stream_->handled();
  }

  void done(const grpc::Status& status) {
    stream_.reset();
    const bool was_connected = std::exchange(is_connected_, false);
    report(status);
    loop_.arm(timer_, os::now() + pause_, [this] { connect(); });
    pause_ = std::min(pause_ * 2, kLongestPause);
    if (was_connected)
      callbacks_.on_disconnected(status.ok() ? "the controller closed it" : status.error_message());
  }

  // A controller that is not there is waited for in silence; one that refuses us is a mistake of
  // somebody, said once.
  void report(const grpc::Status& status) {
    if (status.ok() || status.error_code() == grpc::StatusCode::UNAVAILABLE) return;
    if (status.error_message() == last_failure_) return;
    last_failure_ = status.error_message();
    std::fprintf(stderr, "agent: stream to the controller: %s\n", last_failure_.c_str());
  }

  os::Loop& loop_;
  // A name of its own: several streams may share a loop.
  const std::string timer_ = str("agent_stream.reconnect.", static_cast<const void*>(this));
  const RpcAddress controller_;
  const Callbacks callbacks_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<proto::Controller::Stub> stub_;
  std::shared_ptr<ClientStream> stream_;
  uint64_t attempt_ = 0;
  bool is_connected_ = false;
  Duration pause_ = kFirstPause;
  std::string last_failure_;
};

AgentStream::AgentStream(os::Loop& loop, RpcAddress controller, Callbacks callbacks)
    : state_(std::make_shared<State>(loop, std::move(controller), std::move(callbacks))) {
  state_->connect();
}
AgentStream::~AgentStream() { state_->end(); }

bool AgentStream::is_connected() const { return state_->is_connected(); }
bool AgentStream::send(const HostEvent& event) { return state_->send(event); }
bool AgentStream::is_drained() const { return state_->is_drained(); }

}  // namespace paceline::rpc
