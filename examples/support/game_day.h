// GameDay: lets a fault injector make this program skip one contribution, as a bug in it would.
//
// PACELINE_GAME_DAY names a file of at least 16 bytes, which is mapped shared and so may be written
// at any time. Host byte order:
//
//   u64 skip_step_plus_one   0: skip nothing; s+1: skip in step s. Written last.
//   u32 bucket               the bucket whose accumulate is left out, once in that step
//   u32 slot_plus_one        0: every rank that maps the file; r+1: only the rank in slot r
//
// The program never writes. Without the variable, or without such a file, nothing is skipped.
#pragma once

#include <atomic>
#include <cstdint>

namespace support {

struct GameDayFile {
  std::atomic<uint64_t> skip_step_plus_one;
  std::atomic<uint32_t> bucket;
  std::atomic<uint32_t> slot_plus_one;
};
static_assert(sizeof(GameDayFile) == 16 && std::atomic<uint64_t>::is_always_lock_free);

// One contribution of this rank.
struct Contribution {
  uint64_t step = 0;
  uint32_t bucket = 0;
  uint32_t slot = 0;
};

class GameDay final {
 public:
  GameDay();
  ~GameDay();
  GameDay(const GameDay&) = delete;
  GameDay& operator=(const GameDay&) = delete;

  // Whether to leave this contribution out. True once per step.
  bool should_skip(const Contribution& contribution);

 private:
  const GameDayFile* file_ = nullptr;
  uint64_t skipped_step_plus_one_ = 0;
};

}  // namespace support
