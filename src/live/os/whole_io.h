// Reads and writes that are whole: repeated when a signal has cut in and after a short one.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace paceline::os {

inline constexpr size_t kPieceBytes = 4 << 20;  // of one call: bounds the time of one

// Calls `piece(done, count)`, which is to move `count` bytes behind the first `done` and says how
// many it has moved, as ::pread does, until all `size` are moved or there are no more. Returns how
// many were; nothing if it has failed, as errno says.
template <class Piece>
std::optional<size_t> move_whole(size_t size, Piece&& piece) {
  size_t done = 0;
  while (done < size) {
    const auto count = piece(done, std::min(size - done, kPieceBytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

// False: it has failed, as errno says.
[[nodiscard]] bool write_whole(int file, std::span<const std::byte> bytes, uint64_t at);
// How many bytes there were: fewer than asked for only at the end of the file. Nothing: as above.
[[nodiscard]] std::optional<size_t> read_whole(int file, std::span<std::byte> bytes, uint64_t at);

}  // namespace paceline::os
