// The program's own checkpoint: a small text file that is replaced whole or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace unaware {

struct Checkpoint {
  uint64_t steps_done = 0;
  uint64_t state = 0;
};

// None if there is no file. Throws std::runtime_error if it cannot be understood.
std::optional<Checkpoint> load_checkpoint(const std::string& path);
// Written beside, synced, renamed. Throws std::runtime_error.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint);

}  // namespace unaware
