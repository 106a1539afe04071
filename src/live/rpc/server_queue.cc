#include "live/rpc/server_queue.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "live/os/clock.h"
#include "live/os/quiet_thread.h"

namespace paceline::rpc {
namespace {

// gRPC ends the calls of a server that is shut down at once; longer means that it hangs.
constexpr Duration kDrainLimit = Duration::seconds(10);

}  // namespace

ServerQueue::~ServerQueue() {
  if (thread_.joinable()) {
    drain();
  } else {
    events_->Shutdown();  // as gRPC demands; never served, it holds nothing
  }
}

void ServerQueue::serve() {
  thread_ = os::start_quiet_thread("rpc_server", [this] { run(); });
}

void ServerQueue::drain() {
  {
    const Instant deadline = os::now() + kDrainLimit;
    const os::MutexLock lock(mutex_);
    while (!calls_.empty()) {
      const Duration left = deadline - os::now();
      CHECK(left > Duration(), "gRPC does not end its calls");
      is_empty_.wait_for(mutex_, left);
    }
  }
  events_->Shutdown();
  thread_.join();
}

void ServerQueue::add(std::shared_ptr<ServerCall> call) {
  const os::MutexLock lock(mutex_);
  const ServerCall* const key = call.get();
  calls_.emplace(key, std::move(call));
}

void ServerQueue::end_calls() {
  std::vector<std::shared_ptr<ServerCall>> calls;
  {
    const os::MutexLock lock(mutex_);
    for (const auto& [key, call] : calls_) calls.push_back(call);
  }
  for (const std::shared_ptr<ServerCall>& call : calls) call->end();
}

void ServerQueue::run() {
  void* tag = nullptr;
  bool is_good = false;
  while (events_->Next(&tag, &is_good)) take(tag, is_good);
}

void ServerQueue::take(void* tag, bool is_good) {
  const OperationTag of = *static_cast<const OperationTag*>(tag);
  if (!of.call->take(of.operation, is_good)) return;
  std::shared_ptr<ServerCall> last;  // destroyed after the lock
  const os::MutexLock lock(mutex_);
  const auto found = calls_.find(of.call);
  CHECK(found != calls_.end());
  last = std::move(found->second);
  calls_.erase(found);
  if (calls_.empty()) is_empty_.notify_all();
}

}  // namespace paceline::rpc
