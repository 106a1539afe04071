// The checkpoints of a job in their directory: which is the newest, how one becomes valid, and
// which are kept. Several processes may look at a directory, and, while a lead is replaced, two may
// write to it: each step is one rename or unlink, and an older one never takes the place of a
// newer.
//
//   step-00000000000000000120.checkpoint             valid
//   step-00000000000000000120.checkpoint.tmp-3.1-1   being written by rank 3.1
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "live/checkpoint/checkpoint_file.h"

namespace paceline::checkpoint {

// Environment by which a rank learns where checkpoints are kept.
inline constexpr const char* kDirectoryVariable = "PACELINE_CHECKPOINT_DIR";
inline constexpr const char* kEveryVariable = "PACELINE_CHECKPOINT_EVERY";  // steps, or "auto"
inline constexpr const char* kGenerationVariable = "PACELINE_CHECKPOINT_GENERATION";
// "1": continue from the newest. Which one that is says kResumeFromVariable (core/model/job.h).
inline constexpr const char* kResumeVariable = "PACELINE_RESUME";

inline constexpr size_t kKept = 2;

struct Entry {
  std::string path;
  Manifest manifest;
};

// Those with a whole manifest and the right size, newest first.
std::vector<Entry> list(const std::string& directory);

// Writes a checkpoint, makes it valid and drops all but the newest kKept. `writer` tells apart the
// processes that may write at the same time. Refused if the directory has one that is not older.
// Whatever goes wrong, what was valid before stays so.
Status save(const std::string& directory, const Manifest& manifest, std::span<const std::byte> data,
            const std::string& writer);

// The checkpoint at `path`, or the newest one before it that is whole. What was passed over, and
// why, is in `passed_over`.
struct Loaded {
  std::string path;
  Checkpoint checkpoint;
  std::vector<Error> passed_over;
};
Result<Loaded> load(const std::string& path);

// What writers that are gone have left unfinished. REQUIRES: no writer is at work.
void remove_unfinished(const std::string& directory);

}  // namespace paceline::checkpoint
