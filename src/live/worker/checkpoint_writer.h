// CheckpointWriter: decides when a checkpoint is due and writes it behind the training's back.
//
// The training thread hands over a copy of the state; a thread of the library's own, started with
// the first copy, writes it. While one is being written the next is not due: a slow disk makes
// checkpoints rarer and never holds up a step, and one that fails is reported in a line.
//
// Every N steps, or `auto`: by Young's formula, sqrt(2 * cost * time between failures), with the
// cost that this run has measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "live/checkpoint/checkpoint_file.h"
#include "live/os/mutex.h"

namespace paceline::worker {

struct CheckpointOptions {
  std::string directory;    // empty: none
  uint64_t every = 0;       // steps; 0: auto
  uint64_t generation = 1;  // of this run in the directory
  std::string resume_from;  // a file; empty: from the program's own initial state
};

class CheckpointWriter {
 public:
  CheckpointWriter(CheckpointOptions options, RankId self, Instant now);
  // Waits for what is being written.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  bool is_wanted() const { return !options_.directory.empty(); }
  const CheckpointOptions& options() const { return options_; }
  // The step whose state was handed over last, or is known to be on disk.
  Step passed() const { return passed_; }
  void set_passed(Step step) { passed_ = step; }

  bool is_due(Step step, Instant now) EXCLUDES(mutex_);
  struct Copy {
    checkpoint::Manifest manifest;
    std::vector<std::byte> data;
    Duration cost;  // for which the training stood still
  };
  // Takes a copy over. False, and nothing happens, if it has not finished the one before.
  bool write(Copy copy) EXCLUDES(mutex_);
  // Memory of a copy that has been written, to be used again. Empty if there is none.
  std::vector<std::byte> take_memory() EXCLUDES(mutex_);
  // Waits until what was handed over is written, and says what became of it.
  Status finish() EXCLUDES(mutex_);

 private:
  void serve();

  const CheckpointOptions options_;
  const std::string name_;  // of this writer among others
  Step passed_;             // of the training thread

  os::Mutex mutex_;
  os::Condition changed_;
  bool is_busy_ GUARDED_BY(mutex_) = false;
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  Copy copy_ GUARDED_BY(mutex_);
  Status last_ GUARDED_BY(mutex_);
  Instant next_ GUARDED_BY(mutex_);  // for auto
  std::thread thread_;
};

// Exposed for its test: the pause after a checkpoint that has cost as much.
Duration checkpoint_interval(Duration cost, Duration writing);

}  // namespace paceline::worker
