// AgentStream: the agent's end of its stream to the controller.
//
// It connects, and connects again when the stream is lost, for as long as it lives, with a pause
// that doubles from 20 ms to 500 ms. All callbacks run on the agent's loop, in this order: one
// on_connected, any number of on_command, one on_disconnected, and again. In on_connected the agent
// must send its AgentHello before anything else; the controller refuses a stream that does not
// begin with one.
//
// Threads: all functions on the loop's thread. gRPC's own threads only post.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/model/host_message.h"
#include "live/os/loop.h"
#include "live/rpc/endpoint.h"

namespace paceline::rpc {

class AgentStream {
 public:
  struct Callbacks {
    std::function<void()> on_connected;
    std::function<void(HostCommand)> on_command;
    std::function<void(const std::string& reason)> on_disconnected;
  };

  // `loop` must outlive the stream. Connecting begins at once.
  AgentStream(os::Loop& loop, RpcAddress controller, Callbacks callbacks);
  // Ends the stream; no callback runs afterwards.
  ~AgentStream();

  bool is_connected() const;

  // Queues the event; never blocks. False if there is no stream, or if the controller has not taken
  // what was sent before (more than 100,000 messages or 64 MiB wait: the stream is then given up).
  // What was queued on a stream that is lost may or may not have arrived.
  bool send(const HostEvent& event);

  // True once everything sent has been handed to the transport; for a last message before exit.
  bool is_drained() const;

 private:
  class State;
  std::shared_ptr<State> state_;  // shared with what is posted and not yet run
};

}  // namespace paceline::rpc
