#include "live/os/whole_io.h"

#include <unistd.h>

namespace paceline::os {

bool write_whole(int file, std::span<const std::byte> bytes, uint64_t at) {
  const std::optional<size_t> written =
      move_whole(bytes.size(), [file, bytes, at](size_t done, size_t count) {
        return ::pwrite(file, bytes.data() + done, count, static_cast<off_t>(at + done));
      });
  if (written && *written < bytes.size()) errno = EIO;  // no error, and no byte either
  return written == bytes.size();
}

std::optional<size_t> read_whole(int file, std::span<std::byte> bytes, uint64_t at) {
  return move_whole(bytes.size(), [file, bytes, at](size_t done, size_t count) {
    return ::pread(file, bytes.data() + done, count, static_cast<off_t>(at + done));
  });
}

}  // namespace paceline::os
