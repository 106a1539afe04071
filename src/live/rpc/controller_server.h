// ControllerServer: the controller's side of all its calls and streams.
//
// A thread of the server decodes and checks what arrives and posts it to the controller's loop,
// where the handler acts; what the handler sends is encoded on the loop and queued per stream. A
// peer that does not read cannot hold up anything: its stream is ended when too much waits for it,
// and it may connect again.
//
// Threads: construction and all functions on the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/strong_id.h"
#include "core/model/host_message.h"
#include "core/model/incident.h"
#include "core/model/job.h"
#include "live/os/loop.h"
#include "live/rpc/endpoint.h"

namespace paceline::rpc {

// Numbers the streams of one server, of agents and watchers alike; never used again.
using StreamId = StrongId<struct StreamTag, uint64_t>;

// What the server asks of the controller. All calls on the loop's thread. For one agent:
// agent_opened, agent_said (the first is its AgentHello), agent_closed.
class ControllerHandler {
 public:
  virtual ~ControllerHandler() = default;
  virtual void agent_opened(StreamId stream) = 0;
  virtual void agent_said(StreamId stream, HostEvent event) = 0;
  virtual void agent_closed(StreamId stream) = 0;
  // The handler sends what is; it sends what happens until watcher_closed.
  virtual void watcher_opened(StreamId stream) = 0;
  virtual void watcher_closed(StreamId stream) = 0;
  // The reply is sent when these return, so after what they journal.
  virtual Status submit(JobSpec spec) = 0;
  virtual Status stop(bool is_immediate) = 0;
  virtual Status set_recovery(RecoveryMode mode, std::string scope) = 0;
};

class ControllerServer {
 public:
  // `loop` and `handler` must outlive the server.
  static Result<std::unique_ptr<ControllerServer>> listen(os::Loop& loop, const RpcAddress& address,
                                                          ControllerHandler& handler);
  // Ends all streams and calls within a second; the handler is not called afterwards.
  ~ControllerServer();

  // With the port that was chosen, if 0 was asked for.
  const std::string& address() const;

  // Never block. A stream that is closed, or unknown, is ignored.
  void send(StreamId agent, const HostCommand& command);
  // In one message, which costs both sides less than one for each.
  void send(StreamId watcher, std::span<const JobEvent> events);
  // Ends the stream in order, after what was sent; the handler hears of it when it is closed.
  void close(StreamId stream);

 private:
  class State;
  explicit ControllerServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace paceline::rpc
