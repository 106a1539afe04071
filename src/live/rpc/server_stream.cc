#include "live/rpc/server_stream.h"

#include "live/rpc/convert.h"

namespace paceline::rpc {

void AgentServerStream::start() {
  const os::MutexLock lock(mutex_);
  if (has_finished()) return;
  context_.AddInitialMetadata(kWelcomeKey, "1");
  StartSendInitialMetadata();  // tells the agent that its token was right
  read_next();
}

void AgentServerStream::read_next() {
  if (has_finished() || is_reading_ || unhandled_ >= kMaxUnhandled) return;
  is_reading_ = true;
  StartRead(&incoming_);
}

void AgentServerStream::handled() {
  const os::MutexLock lock(mutex_);
  --unhandled_;
  read_next();
}

void AgentServerStream::OnReadDone(bool is_good) {
  // Before the lock, so that a large message does not keep send() waiting.
  Result<HostEvent> event = from_proto(incoming_.event());
  const os::MutexLock lock(mutex_);
  is_reading_ = false;
  if (!is_good) return finish_locked(grpc::Status::OK);
  if (!event) return finish_locked(to_grpc(event.error()));
  ++unhandled_;
  if (!listener_.stream_said(id_, std::move(event).value()))
    return give_up("the controller is behind");
  read_next();
}

}  // namespace paceline::rpc
