// ControllerClient: what a command line says to a controller, as blocking calls.
//
// Calls wait for a controller that is being restarted, up to their time limit; those that change
// something may be repeated: the controller takes the same job, or the same stop, once.
//
// Threads: any number, one watch() at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "core/model/incident.h"
#include "core/model/job.h"
#include "live/rpc/endpoint.h"

namespace paceline::rpc {

class ControllerClient {
 public:
  // Errors: Timeout or Unavailable if nobody answers; Refused if the token is wrong.
  static Result<std::unique_ptr<ControllerClient>> connect(const std::string& address,
                                                           Duration timeout);
  static Result<std::unique_ptr<ControllerClient>> connect(const RpcAddress& address,
                                                           Duration timeout);
  ~ControllerClient();

  // Refused if the controller already has another job.
  Status submit(const JobSpec& spec);
  Status stop(bool is_immediate);
  // An empty scope means all detectors.
  Status set_recovery(RecoveryMode mode, const std::string& scope);

  struct WatchOptions {
    // A lost stream is opened again, so that a restart of the controller is invisible but for
    // repeated events: each stream begins with what is (JobStarted, a RankPlaced for each slot,
    // every incident, progress), then goes on with what happens.
    bool is_reconnecting = true;
    // Without any controller for so long, watch() gives up.
    Duration patience = Duration::seconds(30);
  };
  // Calls `on_event` on the calling thread for each event. Returns success after a JobEnded has
  // been delivered and the controller has closed the stream (or is gone), or after cancel_watch().
  // Watch before submit, on a thread of its own, to miss nothing.
  Status watch(const WatchOptions& options, const std::function<void(const JobEvent&)>& on_event);
  // From any thread; also stops a watch() that has not yet begun. Cannot be undone.
  void cancel_watch();

 private:
  class State;
  explicit ControllerClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace paceline::rpc
