// Job: what the C ABI calls a job. It keeps the order of calls, waits, and owns the mutex, the
// session behind it and the progress thread.
//
//   Setup --begin_step--> InStep --finish_step: OK--> Between --begin_step--> InStep ...
//     register_*             |  ^----finish_step: MORE       |
//                            +--finish_step: LEFT--> Ended <-+--begin_step: LEFT, STOP
//                                                            +--barrier: LEFT
//
// Calls come from one thread at a time, but for abort().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "live/os/mutex.h"
#include "live/worker/bucket.h"
#include "live/worker/checkpoint_writer.h"
#include "live/worker/session.h"
#include "live/worker/state_registry.h"
#include "paceline/paceline.h"

namespace paceline::worker {

class Job {
 public:
  static Result<std::unique_ptr<Job>> open(SessionOptions options);
  // Without finalize(): the rank is gone for the others.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  paceline_status register_bucket(std::string name, std::span<const uint64_t> element_counts,
                                  collective::Dtype dtype, uint32_t* bucket);
  paceline_status register_state(std::string name, std::span<std::byte> bytes);
  paceline_status begin_step(paceline_step* step);
  paceline_status next_micro_batch(paceline_micro_batch* micro_batch);
  paceline_status accumulate(uint32_t bucket, const void* gradient);
  paceline_status finish_step();
  const float* sum(uint32_t bucket);
  paceline_status barrier();
  paceline_status log_metric(const char* name, double value);
  uint64_t state_digest();
  uint32_t rank() const { return rank_.slot.value(); }
  uint32_t world_size();
  bool is_lead();
  // Returns when no other rank can need this one's state. Nothing but the destructor may follow.
  paceline_status finalize();
  void abort();

  // The text of the last error, until the next call that fails.
  const char* last_error() const { return last_error_.c_str(); }

 private:
  enum class Stage : uint8_t { Setup, InStep, Between, Ended };

  explicit Job(std::unique_ptr<Session> session, const SessionOptions& options);
  void serve();  // the progress thread
  paceline_status start() REQUIRES(mutex_);
  paceline_status wait_for_membership() REQUIRES(mutex_);
  paceline_status wait_at_barrier() REQUIRES(mutex_);
  paceline_status end_step() EXCLUDES(mutex_);
  // Begins to copy the state for a joiner that waits for it, at a commit boundary. A thread of its
  // own copies while the step computes, for the state stays as it is until finish_step returns.
  void offer_copy() EXCLUDES(mutex_);
  void finish_copy() EXCLUDES(mutex_);
  void prepare_copy_memory() EXCLUDES(mutex_);  // by the progress thread
  void load_snapshot() REQUIRES(mutex_);
  // Says what the state hashes to when all members do. At a commit boundary only.
  void offer_digest() EXCLUDES(mutex_);

  // --- checkpoint_job.cc ---
  enum class SaveWhen : uint8_t { Due, Last };
  // Hands a copy of the state over to be written, if this rank is the one that does. At a commit
  // boundary only.
  void save_state(SaveWhen when) EXCLUDES(mutex_);
  // The same, if it is not saved yet, and waits until it is on disk.
  void save_last_state() EXCLUDES(mutex_);
  bool is_at_boundary() const REQUIRES(mutex_);
  checkpoint::Manifest manifest() const REQUIRES(mutex_);
  // Overwrites the registered memory with the checkpoint that the job continues from, if any.
  paceline_status resume();
  // Why a checkpoint does not belong to this program; empty if it does.
  std::string misfit(const checkpoint::Manifest& manifest, uint64_t own_state_bytes) const;

  // OK unless there is no point in waiting any longer.
  paceline_status check_alive() REQUIRES(mutex_);
  void wait() REQUIRES(mutex_);
  paceline_status fail(paceline_status status, std::string text);
  // A call that is out of order: a contribution or another call has been left out.
  paceline_status refuse(std::string text) REQUIRES(mutex_);

  const RankId rank_;
  const uint64_t seed_;
  const ReduceMode reduce_;
  std::atomic<bool> is_aborted_ =
      false;  // set by any thread; seen at the next look, no order needed

  // Of the calling thread alone.
  Stage stage_ = Stage::Setup;
  StateRegistry state_;
  std::vector<Bucket> registered_;  // moved into the session by the first begin_step
  Step step_;                       // begun last
  CheckpointWriter checkpoints_;
  rank::Position initial_;  // where the registered memory stands before the first step
  std::optional<uint32_t> resumed_micro_batches_;  // V of the checkpoint that was loaded
  std::string last_error_;

  os::Mutex mutex_;
  os::Condition changed_;
  std::unique_ptr<Session> session_;  // guarded by mutex_, but for what session.h says
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  std::thread progress_;  // only with an agent
  // Of the calling thread, which joins it before the state may change.
  std::thread copying_;
  Snapshot copy_;          // of that thread meanwhile
  std::thread preparing_;  // of the progress thread
};

}  // namespace paceline::worker
