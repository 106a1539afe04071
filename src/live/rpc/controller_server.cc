#include "live/rpc/controller_server.h"

#include <grpc/support/log.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "base/str.h"
#include "live/rpc/channel.h"
#include "live/rpc/controller_calls.h"
#include "live/rpc/convert.h"
#include "live/rpc/server_queue.h"
#include "live/rpc/server_stream.h"

namespace paceline::rpc {
namespace {

constexpr std::chrono::seconds kShutdownLimit{1};

}  // namespace

// Threads: the queue's thread calls the listener and what prepares a call, and so does the loop's
// while it sends; they touch what the mutex guards, and post the rest to the loop.
class ControllerServer::State final : public StreamListener {
 public:
  State(os::Loop& loop, std::string token, ControllerHandler& handler)
      : loop_(loop), token_(std::move(token)), handler_(handler) {}
  ~State() override { shut_down(); }

  Status listen(const std::string& address) {
    grpc::ServerBuilder builder;
    int port = 0;
    // Linux would share a port among those who all ask for it.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    limit_server(builder, address);
    builder.RegisterService(&service_);
    queue_ = std::make_unique<ServerQueue>(builder.AddCompletionQueue());
    // Of a taken port gRPC would log a page; the caller has one line.
    gpr_set_log_function([](gpr_log_func_args*) {});
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) queue_.reset();  // gRPC would complain that it goes before the server
    gpr_set_log_function(nullptr);
    if (server_ == nullptr || port == 0)
      return Failure{ErrorCode::Unavailable,
                     str("cannot listen on ", address,
                         ": it is taken, or no address of this machine; choose another one")};
    calls_ = std::make_unique<ControllerCalls>(
        *queue_, service_, token_,
        [this](std::function<void()> function) { return post(std::move(function)); }, handler_);
    calls_->request_first();
    request_stream<AgentServerStream>();
    request_stream<WatcherStream>();
    queue_->serve();
    address_ = address;
    if (address.ends_with(":0")) address_ = str(address.substr(0, address.size() - 1), port);
    return {};
  }

  const std::string& address() const { return address_; }

  void send(StreamId stream, const HostCommand& command) {
    if (const std::shared_ptr<AgentServerStream> agent = find(agents_, stream)) {
      proto::AgentCommand message;
      *message.mutable_command() = to_proto(command);
      agent->send(std::move(message));
    }
  }
  void send(StreamId stream, std::span<const JobEvent> events) {
    if (const std::shared_ptr<WatcherStream> watcher = find(watchers_, stream)) {
      proto::WatchEvent message;
      for (const JobEvent& event : events) *message.add_event() = to_proto(event);
      watcher->send(std::move(message));
    }
  }
  void close(StreamId stream) {
    if (const auto agent = find(agents_, stream)) agent->finish(grpc::Status::OK);
    if (const auto watcher = find(watchers_, stream)) watcher->finish(grpc::Status::OK);
  }

  // --- The queue's thread

  void stream_arrived(AgentServerStream& stream) override {
    request_stream<AgentServerStream>();
    const StreamId id = let_in(agents_, stream);
    if (id == StreamId()) return;
    if (!post([this, id] { handler_.agent_opened(id); })) stream.finish(behind());
    stream.start();
  }
  void stream_arrived(WatcherStream& stream) override {
    request_stream<WatcherStream>();
    const StreamId id = let_in(watchers_, stream);
    if (id == StreamId()) return;
    if (!post([this, id] { handler_.watcher_opened(id); })) stream.finish(behind());
    stream.start();
  }

  bool stream_said(StreamId stream, HostEvent event) override {
    return post([this, stream, taken = std::move(event)]() mutable {
      handler_.agent_said(stream, std::move(taken));
      if (const auto agent = find(agents_, stream)) agent->handled();
    });
  }

  void stream_done(StreamId stream) override {
    bool is_agent = false;
    {
      const os::MutexLock lock(mutex_);
      is_agent = agents_.erase(stream) == 1;
      if (!is_agent) watchers_.erase(stream);
    }
    const bool is_posted = post([this, stream, is_agent] {
      is_agent ? handler_.agent_closed(stream) : handler_.watcher_closed(stream);
    });
    // Streams cannot fill the loop by themselves (kMaxUnhandled each): it does not run any more.
    CHECK(is_posted, "the loop is stuck");
  }

 private:
  template <class Stream>
  using Streams = std::map<StreamId, std::shared_ptr<Stream>>;

  // One of each kind is asked for, always: the next when it has arrived.
  template <class Stream>
  void request_stream() {
    const os::MutexLock lock(mutex_);
    if (is_ending_) return;
    const std::shared_ptr<Stream> stream = std::make_shared<Stream>(*queue_, *this);
    queue_->add(stream);
    stream->request(service_);
  }
  // Its number, or none if it is refused.
  template <class Stream>
  StreamId let_in(Streams<Stream>& streams, Stream& stream) {
    if (!has_token(stream.context(), token_)) {
      stream.finish(no_token());
      return {};
    }
    const os::MutexLock lock(mutex_);
    if (is_ending_) {
      stream.end();
      return {};
    }
    next_number_ = next_number_.next();
    stream.let_in(next_number_);
    streams.emplace(next_number_, stream.shared_from_this());
    return next_number_;
  }
  template <class Stream>
  std::shared_ptr<Stream> find(const Streams<Stream>& streams, StreamId id) {
    const os::MutexLock lock(mutex_);
    const auto found = streams.find(id);
    return found == streams.end() ? nullptr : found->second;
  }

  // What is posted does nothing once the server is gone; both are on the loop's thread.
  [[nodiscard]] bool post(std::function<void()> function) {
    return loop_.post([alive = posts_alive_, taken = std::move(function)] {
      if (!alive.expired()) taken();
    });
  }

  // Each call that is there is ended; those that come later, while gRPC's server ends, end at once.
  void shut_down() {
    alive_.reset();
    if (calls_ == nullptr) return;  // never listened
    {
      const os::MutexLock lock(mutex_);
      is_ending_ = true;
    }
    calls_->end();
    queue_->end_calls();
    server_->Shutdown(std::chrono::system_clock::now() + kShutdownLimit);
    server_->Wait();
    queue_->drain();
  }

  os::Loop& loop_;
  const std::string token_;
  ControllerHandler& handler_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  const std::weak_ptr<bool> posts_alive_ = alive_;  // copied by the queue's thread
  std::string address_;

  os::Mutex mutex_;
  // The maps themselves; the streams have a mutex of their own, taken after this one.
  Streams<AgentServerStream> agents_;
  Streams<WatcherStream> watchers_;
  StreamId next_number_ GUARDED_BY(mutex_);
  bool is_ending_ GUARDED_BY(mutex_) = false;

  proto::Controller::AsyncService service_;
  std::unique_ptr<ServerQueue> queue_;
  std::unique_ptr<ControllerCalls> calls_;
  std::unique_ptr<grpc::Server> server_;  // last: gRPC wants its queue to outlive it
};

ControllerServer::ControllerServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
ControllerServer::~ControllerServer() = default;

Result<std::unique_ptr<ControllerServer>> ControllerServer::listen(os::Loop& loop,
                                                                   const RpcAddress& address,
                                                                   ControllerHandler& handler) {
  std::unique_ptr<State> state = std::make_unique<State>(loop, address.token, handler);
  TRY(state->listen(address.address));
  return std::unique_ptr<ControllerServer>(new ControllerServer(std::move(state)));
}

const std::string& ControllerServer::address() const { return state_->address(); }
void ControllerServer::send(StreamId agent, const HostCommand& command) {
  state_->send(agent, command);
}
void ControllerServer::send(StreamId watcher, std::span<const JobEvent> events) {
  state_->send(watcher, events);
}
void ControllerServer::close(StreamId stream) { state_->close(stream); }

}  // namespace paceline::rpc
