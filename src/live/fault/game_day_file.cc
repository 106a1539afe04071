#include "live/fault/game_day_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/str.h"
#include "live/os/descriptor.h"

namespace paceline::fault {

struct GameDayFile::Layout {
  std::atomic<uint64_t> skip_step_plus_one;
  std::atomic<uint32_t> bucket;
  std::atomic<uint32_t> slot_plus_one;
};

Result<GameDayFile> GameDayFile::open(const std::string& path) {
  static_assert(sizeof(Layout) == 16 && std::atomic<uint64_t>::is_always_lock_free);
  const os::Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.is_open() || ::ftruncate(file.get(), sizeof(Layout)) != 0)
    return Failure{ErrorCode::Io, str("cannot make ", path, ": ", std::strerror(errno))};
  void* memory = ::mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED)
    return Failure{ErrorCode::Io, str("cannot map ", path, ": ", std::strerror(errno))};
  return GameDayFile(static_cast<Layout*>(memory));
}

GameDayFile::~GameDayFile() {
  if (layout_ != nullptr) ::munmap(layout_, sizeof(Layout));
}

GameDayFile::GameDayFile(GameDayFile&& other) noexcept
    : layout_(std::exchange(other.layout_, nullptr)) {}

void GameDayFile::skip(uint32_t slot, uint64_t step) {
  layout_->bucket.store(0, std::memory_order_relaxed);
  layout_->slot_plus_one.store(slot + 1, std::memory_order_relaxed);
  // Release: who sees the step sees whom and what it is for.
  layout_->skip_step_plus_one.store(step + 1, std::memory_order_release);
}

}  // namespace paceline::fault
