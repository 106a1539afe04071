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
#include "live/rpc/convert.h"
#include "live/rpc/server_stream.h"

namespace paceline::rpc {
namespace {

constexpr std::chrono::seconds kShutdownLimit{1};

grpc::Status no_token() {
  return {grpc::StatusCode::UNAUTHENTICATED, "the token is missing or wrong"};
}
grpc::Status behind() { return {grpc::StatusCode::RESOURCE_EXHAUSTED, "the controller is behind"}; }
grpc::Status ending() { return {grpc::StatusCode::UNAVAILABLE, "the controller ends"}; }

// A stream that is refused before it begins.
template <class Reactor>
class RefusedStream final : public Reactor {
 public:
  explicit RefusedStream(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { self_.reset(); }

  static Reactor* make(const grpc::Status& status) {
    std::shared_ptr<RefusedStream> stream = std::make_shared<RefusedStream>(status);
    stream->self_ = stream;
    return stream.get();
  }

 private:
  std::shared_ptr<RefusedStream> self_;  // until gRPC is done with it
};

}  // namespace

// Threads: gRPC's threads call the service methods and the listener; they touch what the mutex
// guards, and post the rest to the loop.
class ControllerServer::State final : public proto::Controller::CallbackService,
                                      public StreamListener {
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
    builder.RegisterService(this);
    // Of a taken port gRPC would log a page; the caller has one line.
    gpr_set_log_function([](gpr_log_func_args*) {});
    server_ = builder.BuildAndStart();
    gpr_set_log_function(nullptr);
    if (server_ == nullptr || port == 0)
      return Failure{ErrorCode::Unavailable,
                     str("cannot listen on ", address,
                         ": it is taken, or no address of this machine; choose another one")};
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

  // --- gRPC's threads

  grpc::ServerBidiReactor<proto::AgentMessage, proto::AgentCommand>* Agent(
      grpc::CallbackServerContext* context) override {
    using Refused =
        RefusedStream<grpc::ServerBidiReactor<proto::AgentMessage, proto::AgentCommand>>;
    if (!has_token(*context, token_)) return Refused::make(no_token());
    const std::shared_ptr<AgentServerStream> stream = open(agents_, *context);
    if (!post([this, id = stream->id()] { handler_.agent_opened(id); })) stream->finish(behind());
    stream->start();
    return stream.get();
  }

  grpc::ServerWriteReactor<proto::WatchEvent>* Watch(grpc::CallbackServerContext* context,
                                                     const proto::WatchRequest*) override {
    if (!has_token(*context, token_))
      return RefusedStream<grpc::ServerWriteReactor<proto::WatchEvent>>::make(no_token());
    const std::shared_ptr<WatcherStream> stream = open(watchers_, *context);
    if (!post([this, id = stream->id()] { handler_.watcher_opened(id); })) stream->finish(behind());
    return stream.get();
  }

  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context,
                                   const proto::SubmitRequest* request,
                                   proto::SubmitReply*) override {
    Result<JobSpec> spec = from_proto(request->spec());
    if (!spec) return refuse(context, to_grpc(spec.error()));
    return answer(context, [this, taken = std::move(spec).value()]() mutable {
      return handler_.submit(std::move(taken));
    });
  }
  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context,
                                 const proto::StopRequest* request, proto::StopReply*) override {
    return answer(context, [this, is_immediate = request->is_immediate()] {
      return handler_.stop(is_immediate);
    });
  }
  grpc::ServerUnaryReactor* SetRecovery(grpc::CallbackServerContext* context,
                                        const proto::SetRecoveryRequest* request,
                                        proto::SetRecoveryReply*) override {
    if (request->mode() > static_cast<uint32_t>(RecoveryMode::Off))
      return refuse(context, {grpc::StatusCode::INVALID_ARGUMENT, "no such recovery mode"});
    return answer(context,
                  [this, mode = static_cast<RecoveryMode>(request->mode()),
                   scope = request->scope()] { return handler_.set_recovery(mode, scope); });
  }
  grpc::ServerUnaryReactor* Ping(grpc::CallbackServerContext* context, const proto::PingRequest*,
                                 proto::PingReply*) override {
    return answer(context, [] { return Status(); });
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

  template <class Stream>
  std::shared_ptr<Stream> open(Streams<Stream>& streams, grpc::CallbackServerContext& context) {
    const os::MutexLock lock(mutex_);
    next_number_ = next_number_.next();
    std::shared_ptr<Stream> stream = std::make_shared<Stream>(next_number_, context, *this);
    stream->keep(stream);
    streams.emplace(next_number_, stream);
    if (is_ending_) stream->abort();
    return stream;
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

  // Has `act` run on the loop and its result sent. Every call is answered exactly once: by whoever
  // takes it out of `calls_`.
  grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* context,
                                   std::function<Status()> act) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    if (!has_token(*context, token_)) {
      reactor->Finish(no_token());
      return reactor;
    }
    uint64_t number = 0;
    {
      const os::MutexLock lock(mutex_);
      number = ++next_call_;
      calls_.emplace(number, reactor);
      if (is_ending_) {
        calls_.erase(number);
        reactor->Finish(ending());
        return reactor;
      }
    }
    const bool is_posted =
        post([this, number, taken = std::move(act)] { reply(number, to_grpc(taken())); });
    if (!is_posted) reply(number, behind());
    return reactor;
  }
  grpc::ServerUnaryReactor* refuse(grpc::CallbackServerContext* context,
                                   const grpc::Status& status) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(has_token(*context, token_) ? status : no_token());
    return reactor;
  }
  void reply(uint64_t number, const grpc::Status& status) {
    grpc::ServerUnaryReactor* reactor = nullptr;
    {
      const os::MutexLock lock(mutex_);
      const auto found = calls_.find(number);
      if (found == calls_.end()) return;
      reactor = found->second;
      calls_.erase(found);
    }
    reactor->Finish(status);
  }

  // gRPC waits for every reactor, so each must be ended first; those that come later end at once.
  void shut_down() {
    alive_.reset();
    if (server_ == nullptr) return;
    Streams<AgentServerStream> agents;
    Streams<WatcherStream> watchers;
    std::map<uint64_t, grpc::ServerUnaryReactor*> calls;
    {
      const os::MutexLock lock(mutex_);
      is_ending_ = true;
      agents = agents_;
      watchers = watchers_;
      calls.swap(calls_);
    }
    for (const auto& [id, agent] : agents) agent->abort();
    for (const auto& [id, watcher] : watchers) watcher->abort();
    for (const auto& [number, reactor] : calls) reactor->Finish(ending());
    server_->Shutdown(std::chrono::system_clock::now() + kShutdownLimit);
    server_->Wait();
  }

  os::Loop& loop_;
  const std::string token_;
  ControllerHandler& handler_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  const std::weak_ptr<bool> posts_alive_ = alive_;  // copied by gRPC's threads
  std::string address_;

  os::Mutex mutex_;
  // The maps themselves; the streams have a mutex of their own, taken after this one.
  Streams<AgentServerStream> agents_;
  Streams<WatcherStream> watchers_;
  std::map<uint64_t, grpc::ServerUnaryReactor*> calls_ GUARDED_BY(mutex_);
  StreamId next_number_ GUARDED_BY(mutex_);
  uint64_t next_call_ GUARDED_BY(mutex_) = 0;
  bool is_ending_ GUARDED_BY(mutex_) = false;

  std::unique_ptr<grpc::Server> server_;  // last: its threads use the rest
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
