#include "live/rpc/client_stream.h"

#include <utility>

#include "live/os/clock.h"
#include "live/os/quiet_thread.h"
#include "live/rpc/convert.h"

namespace paceline::rpc {

ClientStream::~ClientStream() {
  if (thread_.joinable()) {
    thread_.join();
  } else {
    events_.Shutdown();  // as gRPC demands; never started, it holds nothing
  }
}

void ClientStream::start(proto::Controller::Stub& stub, const std::string& token) {
  add_token(context_, token);
  // The channel connects only while somebody waits for an event. A call that fails at once, because
  // nobody is there yet, would leave the next handshake to nobody.
  context_.set_wait_for_ready(true);
  const os::MutexLock lock(mutex_);
  call_ = stub.PrepareAsyncAgent(&context_, &events_);
  call_->StartCall(tag_of(Operation::Start));
  thread_ = os::start_quiet_thread("agent_stream", [this] { run(); });
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

void ClientStream::cancel() {
  context_.TryCancel();
  const os::MutexLock lock(mutex_);
  is_cancelled_ = true;
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

// --- What is started

void ClientStream::read_next() {
  if (!is_open_ || is_reading_) return;
  if (is_cancelled_) return finish();  // no read is there to fail, and the loop may handle no more
  if (unhandled_ >= kMaxUnhandled) return;
  is_reading_ = true;
  call_->Read(&incoming_, tag_of(Operation::Read));
}

void ClientStream::write_next() {
  while (is_open_) {
    const proto::AgentMessage* const message = queue_.begin_write();
    if (message == nullptr) return;
    is_writing_ = true;
    const auto write = [&] { call_->Write(*message, tag_of(Operation::Write)); };
    void* tag = nullptr;
    bool is_good = false;
    // Most writes are over when they have begun.
    const grpc::CompletionQueue::NextStatus next =
        events_.DoThenAsyncNext(write, &tag, &is_good, gpr_inf_past(GPR_CLOCK_MONOTONIC));
    if (next != grpc::CompletionQueue::GOT_EVENT) return;
    take(static_cast<Operation>(reinterpret_cast<uintptr_t>(tag)), is_good);
  }
}

void ClientStream::finish() {
  is_open_ = false;
  call_->Finish(&status_, tag_of(Operation::Finish));
}

void ClientStream::shut_down_if_finished() {
  if (is_finished_ && !is_writing_) events_.Shutdown();
}

// --- What is over

void ClientStream::run() {
  void* tag = nullptr;
  bool is_good = false;
  while (events_.Next(&tag, &is_good)) {
    const os::MutexLock lock(mutex_);
    take(static_cast<Operation>(reinterpret_cast<uintptr_t>(tag)), is_good);
    write_next();
  }
  listener_.on_done(status_);
  const os::MutexLock lock(mutex_);
  is_done_ = true;
  done_.notify_all();
}

void ClientStream::take(Operation operation, bool is_good) {
  switch (operation) {
    case Operation::Start:
      if (!is_good) return finish();
      call_->ReadInitialMetadata(tag_of(Operation::Metadata));
      return;
    case Operation::Metadata:
      // That they are read means nothing: of a refused call they are empty.
      if (!is_good || !context_.GetServerInitialMetadata().contains(kWelcomeKey)) return finish();
      is_open_ = true;
      listener_.on_open();
      return read_next();
    case Operation::Read:
      return take_read(is_good);
    case Operation::Write:
      is_writing_ = false;
      queue_.wrote_first();
      // One that fails is no news: the read fails too.
      return shut_down_if_finished();
    case Operation::Finish:
      is_finished_ = true;
      return shut_down_if_finished();
  }
}

void ClientStream::take_read(bool is_good) {
  is_reading_ = false;
  if (!is_good) return finish();
  Result<HostCommand> command = from_proto(incoming_.command());
  ++unhandled_;
  // The next read fails then, and ends the stream.
  if (!command || !listener_.on_said(std::move(command).value())) {
    context_.TryCancel();
    unhandled_ = 0;
  }
  read_next();
}

}  // namespace paceline::rpc
