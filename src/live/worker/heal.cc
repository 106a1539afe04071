#include "live/worker/heal.h"

#include <algorithm>
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

// In pieces of a chunk, so that a piece is in the cache when it is hashed for the second time.
void Snapshot::fill(std::span<const std::span<const std::byte>> parts) {
  XXH3_state_t whole, chunk;
  XXH3_64bits_reset(&whole);
  XXH3_64bits_reset(&chunk);
  checksums.clear();
  size_t end = 0;
  for (std::span<const std::byte> part : parts) {
    while (!part.empty()) {
      const size_t room = kHealChunkBytes - end % kHealChunkBytes;
      const std::span<const std::byte> piece = part.first(std::min(part.size(), room));
      std::ranges::copy(piece, bytes().begin() + static_cast<ptrdiff_t>(end));
      XXH3_64bits_update(&whole, piece.data(), piece.size());
      XXH3_64bits_update(&chunk, piece.data(), piece.size());
      end += piece.size();
      part = part.subspan(piece.size());
      if (end % kHealChunkBytes != 0 && end != size_bytes) continue;
      checksums.push_back(XXH3_64bits_digest(&chunk));
      XXH3_64bits_reset(&chunk);
    }
  }
  digest = XXH3_64bits_digest(&whole);
}

void Snapshot::seal() const {
  // A kernel before 5.1 has no such seal; nothing here depends on it.
  static_cast<void>(memory->seal_contents());
}

Status Snapshot::load(std::span<const std::span<std::byte>> parts) const {
  size_t begin = 0;
  for (const std::span<std::byte> part : parts) {
    TRY(memory->read(begin, part));
    begin += part.size();
  }
  return {};
}

}  // namespace paceline::worker
