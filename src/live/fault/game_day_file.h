// GameDayFile: 16 bytes of shared memory by which a program that plays along is asked to leave out
// a contribution (examples/support/game_day.h reads it). Programs find it by kGameDayVariable.
//
//   u64 skip_step_plus_one   0: skip nothing; s+1: skip in step s. Written last.
//   u32 bucket
//   u32 slot_plus_one        0: every rank; r+1: only the rank in slot r
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace paceline::fault {

inline constexpr const char* kGameDayVariable = "PACELINE_GAME_DAY";

class GameDayFile {
 public:
  // Makes the file, or takes the one that is there.
  static Result<GameDayFile> open(const std::string& path);
  ~GameDayFile();
  GameDayFile(GameDayFile&& other) noexcept;
  GameDayFile& operator=(GameDayFile&&) = delete;

  // The rank in `slot` leaves its first contribution of `step` out of bucket 0.
  void skip(uint32_t slot, uint64_t step);

 private:
  struct Layout;
  explicit GameDayFile(Layout* layout) : layout_(layout) {}
  Layout* layout_ = nullptr;
};

}  // namespace paceline::fault
