#include "live/worker/heal.h"

#include <utility>

#define XXH_INLINE_ALL  // no symbols that could meet those of the program's own copy
#include <xxhash.h>

namespace paceline::worker {

uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Status Snapshot::allocate(const char* label, size_t bytes) {
  TRY_ASSIGN(memory, os::SharedMemory::make(label, std::max<size_t>(bytes, 1)));
  size_bytes = bytes;
  return {};
}

void Snapshot::seal() {
  digest = checksum(bytes());
  checksums.clear();
  for (size_t i = 0; i < heal_chunks(size_bytes); ++i)
    checksums.push_back(checksum(heal_chunk(bytes(), i)));
  // A kernel before 5.1 has no such seal; nothing here depends on it.
  static_cast<void>(memory->seal_contents());
}

}  // namespace paceline::worker
