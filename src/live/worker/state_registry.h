// StateRegistry: the memory that the program has registered as its state. Borrowed, never owned;
// touched by the training thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace paceline::worker {

class StateRegistry {
 public:
  struct Part {
    std::string name;
    std::span<std::byte> bytes;
  };

  // Refuses a name that is used, and memory that is none.
  Status add(std::string name, std::span<std::byte> bytes);
  const std::vector<Part>& parts() const { return parts_; }
  uint64_t size_bytes() const;
  // XXH3 over all parts in order of registration, then over what the library itself must replicate.
  uint64_t digest(std::span<const std::byte> own_state) const;

 private:
  std::vector<Part> parts_;
};

}  // namespace paceline::worker
