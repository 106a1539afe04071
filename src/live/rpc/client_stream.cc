#include "live/rpc/client_stream.h"

#include <utility>

#include "live/os/clock.h"
#include "live/rpc/convert.h"

namespace paceline::rpc {

void ClientStream::start(proto::Controller::Stub& stub, const std::string& token) {
  self_ = shared_from_this();
  add_token(context_, token);
  stub.async()->Agent(&context_, this);
  const os::MutexLock lock(mutex_);
  AddHold();
  is_open_ = true;
  read_next();
  StartCall();
}

bool ClientStream::send(proto::AgentMessage message) {
  const os::MutexLock lock(mutex_);
  if (!is_open_) return false;
  if (!queue_.push(std::move(message))) {
    context_.TryCancel();
    return false;
  }
  write_next();
  return true;
}

void ClientStream::handled() {
  const os::MutexLock lock(mutex_);
  --unhandled_;
  read_next();
}

bool ClientStream::is_drained() {
  const os::MutexLock lock(mutex_);
  return queue_.is_empty();
}

bool ClientStream::wait_done(Duration limit) {
  const Instant deadline = os::now() + limit;
  const os::MutexLock lock(mutex_);
  while (!is_done_ && os::now() < deadline) done_.wait_for(mutex_, deadline - os::now());
  return is_done_;
}

void ClientStream::read_next() {
  if (!is_open_ || is_reading_ || unhandled_ >= kMaxUnhandled) return;
  is_reading_ = true;
  StartRead(&incoming_);
}

void ClientStream::write_next() {
  if (!is_open_) return;
  if (const proto::AgentMessage* const message = queue_.begin_write()) StartWrite(message);
}

void ClientStream::OnReadInitialMetadataDone(bool is_good) {
  // A refused call has no metadata of its own.
  if (is_good) listener_.on_open();
}

void ClientStream::OnReadDone(bool is_good) {
  // Before the lock, so that a large message does not keep send() waiting.
  Result<HostCommand> command = from_proto(incoming_.command());
  const os::MutexLock lock(mutex_);
  is_reading_ = false;
  if (!is_good) {
    is_open_ = false;
    RemoveHold();
    return;
  }
  ++unhandled_;
  // The next read fails then, and ends the stream.
  if (!command || !listener_.on_said(std::move(command).value())) {
    context_.TryCancel();
    unhandled_ = 0;
  }
  read_next();
}

void ClientStream::OnWriteDone(bool is_good) {
  const os::MutexLock lock(mutex_);
  queue_.wrote_first();
  if (is_good) write_next();  // otherwise the read fails too
}

void ClientStream::OnDone(const grpc::Status& status) {
  listener_.on_done(status);
  std::shared_ptr<ClientStream> self = std::move(self_);  // may be the last owner
  const os::MutexLock lock(mutex_);
  is_done_ = true;
  done_.notify_all();
}

}  // namespace paceline::rpc
