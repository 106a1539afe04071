// Trial: one micro-batch that a donor has computed and its joiner computes as well (heal.h).
//
// Exact mode stands on this: the gradient of a micro-batch is a function of (state, seed, step,
// micro-batch). A host whose processor or number of threads makes something else of it would change
// the job's result from its first contribution on, and equal copies of the state cannot show that.
// So a joiner computes one micro-batch that nobody needs of it, from the state in which its donor
// has computed it, and counts only if it makes the same bits. What it has made is then dropped.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "core/model/ids.h"
#include "live/worker/frame.h"

namespace paceline::worker {

// What a gradient's bits may depend on, beside the program.
struct Processor {
  std::string type = "unknown CPU";
  uint32_t threads = 1;  // that OpenMP and BLAS may use
  bool operator==(const Processor&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Processor& processor);
// Of this machine, with so many threads; 0: one for each CPU.
Processor this_processor(uint32_t threads);

struct Trial {
  Turn turn;  // that is not committed yet; the state is that of the commits before
  MicroBatch micro_batch;
  uint64_t digest = 0;  // sum of gradient_digest() over all buckets, in whatever order they came
  Processor processor;
  bool operator==(const Trial&) const = default;
};

// Of what the program has passed to accumulate.
uint64_t gradient_digest(BucketId bucket, std::span<const std::byte> gradient);

// A HealTrial without what only its sender knows (`high`).
FrameHeader trial_header(const Trial& trial);
std::vector<std::byte> trial_payload(const Trial& trial);
// Nothing if it is malformed. REQUIRES: it is not the word that there is none (hop > 0).
std::optional<Trial> decode_trial(const FrameHeader& header, std::span<const std::byte> payload);

}  // namespace paceline::worker
