// The agent's end of one stream: one call, from its start to OnDone. Includes gRPC, so only for .cc
// files. AgentStream makes a new one for each attempt.
//
// Life: the object keeps itself until OnDone, gRPC's last word. A hold keeps OnDone back while
// sends from the loop are allowed; it goes when the first read fails, which is how a stream is
// lost.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/model/host_message.h"
#include "live/os/mutex.h"
#include "live/rpc/channel.h"
#include "live/rpc/outgoing_queue.h"
#include "paceline.grpc.pb.h"

namespace paceline::rpc {

class ClientStream final : public grpc::ClientBidiReactor<proto::AgentMessage, proto::AgentCommand>,
                           public std::enable_shared_from_this<ClientStream> {
 public:
  // Called on gRPC's threads; each should only post. `on_said` gives false to end the stream.
  struct Listener {
    std::function<void()> on_open;
    std::function<bool(HostCommand)> on_said;
    std::function<void(const grpc::Status&)> on_done;
  };

  explicit ClientStream(Listener listener) : listener_(std::move(listener)) {}

  void start(proto::Controller::Stub& stub, const std::string& token) EXCLUDES(mutex_);
  // False if the stream is lost, or given up because too much waits.
  bool send(proto::AgentMessage message) EXCLUDES(mutex_);
  // The loop has dealt with one command.
  void handled() EXCLUDES(mutex_);
  void cancel() { context_.TryCancel(); }
  bool is_drained() EXCLUDES(mutex_);
  // Until OnDone has told the listener; false if that takes longer than `limit`.
  bool wait_done(Duration limit) EXCLUDES(mutex_);

  void OnReadInitialMetadataDone(bool is_good) override;
  void OnReadDone(bool is_good) override EXCLUDES(mutex_);
  void OnWriteDone(bool is_good) override EXCLUDES(mutex_);
  void OnDone(const grpc::Status& status) override EXCLUDES(mutex_);

 private:
  void read_next() REQUIRES(mutex_);
  void write_next() REQUIRES(mutex_);

  grpc::ClientContext context_;
  Listener listener_;
  proto::AgentCommand incoming_;
  std::shared_ptr<ClientStream> self_;

  os::Mutex mutex_;
  os::Condition done_;
  OutgoingQueue<proto::AgentMessage> queue_ GUARDED_BY(mutex_);
  bool is_open_ GUARDED_BY(mutex_) = false;  // the hold is there
  bool is_reading_ GUARDED_BY(mutex_) = false;
  int unhandled_ GUARDED_BY(mutex_) = 0;
  bool is_done_ GUARDED_BY(mutex_) = false;
};

}  // namespace paceline::rpc
