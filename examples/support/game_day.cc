#include "support/game_day.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace support {
namespace {

const GameDayFile* map_file(const char* path) {
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  void* memory = MAP_FAILED;
  struct stat status {};
  if (fstat(descriptor, &status) == 0 && status.st_size >= off_t{sizeof(GameDayFile)})
    memory = mmap(nullptr, sizeof(GameDayFile), PROT_READ, MAP_SHARED, descriptor, 0);
  close(descriptor);
  return memory == MAP_FAILED ? nullptr : static_cast<const GameDayFile*>(memory);
}

}  // namespace

GameDay::GameDay() {
  const char* path = std::getenv("PACELINE_GAME_DAY");
  if (path == nullptr) return;
  file_ = map_file(path);
  if (file_ == nullptr) std::fprintf(stderr, "game day: %s cannot be mapped; ignored\n", path);
}

GameDay::~GameDay() {
  if (file_ != nullptr) munmap(const_cast<GameDayFile*>(file_), sizeof(GameDayFile));
}

bool GameDay::should_skip(const Contribution& contribution) {
  if (file_ == nullptr) return false;
  const uint64_t wanted = contribution.step + 1;
  // Acquire pairs with the injector's last write: bucket and slot are those of this step.
  if (file_->skip_step_plus_one.load(std::memory_order_acquire) != wanted) return false;
  if (skipped_step_plus_one_ == wanted) return false;
  if (file_->bucket.load(std::memory_order_relaxed) != contribution.bucket) return false;
  const uint32_t slot_plus_one = file_->slot_plus_one.load(std::memory_order_relaxed);
  if (slot_plus_one != 0 && slot_plus_one != contribution.slot + 1) return false;
  skipped_step_plus_one_ = wanted;
  return true;
}

}  // namespace support
