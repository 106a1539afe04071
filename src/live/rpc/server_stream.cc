#include "live/rpc/server_stream.h"

#include "base/check.h"
#include "live/rpc/convert.h"

namespace paceline::rpc {

void WatcherStream::request(Service& service) {
  service.RequestWatch(&context_, &request_, &call_, events_.events(), events_.events(), &arrive_);
}
void WatcherStream::arrived() { listener_.stream_arrived(*this); }
void WatcherStream::read_done(bool) { CHECK(false, "a watcher's stream is not read"); }

void WatcherStream::start() {
  const os::MutexLock lock(mutex_);
  start_writing();
}

void AgentServerStream::request(Service& service) {
  service.RequestAgent(&context_, &call_, events_.events(), events_.events(), &arrive_);
}
void AgentServerStream::arrived() { listener_.stream_arrived(*this); }

void AgentServerStream::start() {
  const os::MutexLock lock(mutex_);
  if (has_ended()) return;
  context_.AddInitialMetadata(kWelcomeKey, "1");
  call_.SendInitialMetadata(pending(welcome_));
  start_writing();
  read_next();
}

void AgentServerStream::read_next() {
  if (has_ended() || is_reading_ || unhandled_ >= kMaxUnhandled) return;
  is_reading_ = true;
  call_.Read(&incoming_, pending(read_));
}

void AgentServerStream::handled() {
  const os::MutexLock lock(mutex_);
  --unhandled_;
  read_next();
}

void AgentServerStream::read_done(bool is_good) {
  // Before the lock, so that a large message does not keep send() waiting.
  Result<HostEvent> event = from_proto(incoming_.event());
  const os::MutexLock lock(mutex_);
  is_reading_ = false;
  if (!is_good) return finish_locked(grpc::Status::OK);
  if (!event) return finish_locked(to_grpc(event.error()));
  ++unhandled_;
  if (!listener_.stream_said(id(), std::move(event).value())) return give_up();
  read_next();
}

}  // namespace paceline::rpc
