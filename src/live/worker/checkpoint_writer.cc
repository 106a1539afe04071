#include "live/worker/checkpoint_writer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/str.h"
#include "live/checkpoint/checkpoint_directory.h"
#include "live/os/clock.h"
#include "live/os/quiet_thread.h"

namespace paceline::worker {
namespace {

// For a job that has not failed yet: about what a few hundred GPUs of a large cluster show.
constexpr Duration kTimeBetweenFailures = Duration::seconds(4 * 3600);
constexpr Duration kShortestInterval = Duration::seconds(10);
constexpr Duration kLongestInterval = Duration::seconds(1800);
// The disk is others' too: it rests at least nine tenths of the time.
constexpr int64_t kRestFactor = 10;
constexpr Duration kWaitLimit = Duration::milliseconds(100);

}  // namespace

Duration checkpoint_interval(Duration cost, Duration writing) {
  const double seconds = std::sqrt(2 * cost.in_seconds() * kTimeBetweenFailures.in_seconds());
  const Duration young = Duration::nanoseconds(static_cast<int64_t>(seconds * 1e9));
  return std::clamp(std::max(young, writing * kRestFactor), kShortestInterval, kLongestInterval);
}

CheckpointWriter::CheckpointWriter(CheckpointOptions options, RankId self, Instant now)
    : options_(std::move(options)),
      name_(str(self.slot, ".", self.incarnation, "-", options_.generation)),
      next_(now + kShortestInterval) {}

CheckpointWriter::~CheckpointWriter() {
  {
    const os::MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool CheckpointWriter::is_due(Step step, Instant now) {
  if (!is_wanted() || step == passed_ || step == Step(0)) return false;
  const os::MutexLock lock(mutex_);
  if (is_busy_) return false;
  return options_.every > 0 ? step.value() % options_.every == 0 : now >= next_;
}

bool CheckpointWriter::write(Copy copy) {
  {
    const os::MutexLock lock(mutex_);
    if (is_busy_) return false;
    is_busy_ = true;
    passed_ = copy.manifest.step;
    copy_ = std::move(copy);
  }
  if (thread_.joinable()) {
    changed_.notify_all();
    return true;
  }
  thread_ = os::start_quiet_thread("paceline-disk", [this] { serve(); });
  return true;
}

std::vector<std::byte> CheckpointWriter::take_memory() {
  const os::MutexLock lock(mutex_);
  return is_busy_ ? std::vector<std::byte>() : std::exchange(copy_.data, {});
}

Status CheckpointWriter::finish() {
  const os::MutexLock lock(mutex_);
  while (is_busy_) changed_.wait_for(mutex_, kWaitLimit);
  return last_;
}

void CheckpointWriter::serve() {
  for (;;) {
    Copy copy;
    {
      const os::MutexLock lock(mutex_);
      while (!is_busy_ && !is_stopping_) changed_.wait_for(mutex_, kWaitLimit);
      if (!is_busy_) return;
      copy = std::move(copy_);
    }
    const Instant begun = os::now();
    Status status = checkpoint::save(options_.directory, copy.manifest, copy.data, name_);
    if (!status)
      std::fprintf(stderr, "paceline: no checkpoint of step %llu, training goes on: %s\n",
                   static_cast<unsigned long long>(copy.manifest.step.value()),
                   status.error().message.c_str());
    {
      const os::MutexLock lock(mutex_);
      const Duration writing = os::now() - begun;
      next_ = os::now() + checkpoint_interval(copy.cost + writing, writing);
      last_ = std::move(status);
      copy_ = std::move(copy);
      is_busy_ = false;
    }
    changed_.notify_all();
  }
}

}  // namespace paceline::worker
