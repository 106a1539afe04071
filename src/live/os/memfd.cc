#include "live/os/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/str.h"
#include "live/os/whole_io.h"

namespace paceline::os {

Result<SharedMemory> SharedMemory::make(const char* label, size_t size_bytes) {
  Descriptor descriptor(::memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.is_open())
    return Failure{ErrorCode::Io, str("memfd_create: ", std::strerror(errno))};
  if (::ftruncate(descriptor.get(), static_cast<off_t>(size_bytes)) != 0)
    return Failure{ErrorCode::Io, str("memfd of ", size_bytes, " bytes: ", std::strerror(errno))};
  if (::fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return Failure{ErrorCode::Io, str("sealing a memfd: ", std::strerror(errno))};
  return map(std::move(descriptor), size_bytes);
}

Result<SharedMemory> SharedMemory::attach(Descriptor descriptor) {
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0) return Failure{ErrorCode::Io, str("seals of a memfd: ", std::strerror(errno))};
  if ((seals & F_SEAL_SHRINK) == 0)
    return Failure{ErrorCode::Refused, "a memfd that others may shrink; seal its size first"};
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0)
    return Failure{ErrorCode::Io, str("size of a memfd: ", std::strerror(errno))};
  return map(std::move(descriptor), static_cast<size_t>(status.st_size));
}

Result<SharedMemory> SharedMemory::map(Descriptor descriptor, size_t size_bytes) {
  void* data = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (data == MAP_FAILED)
    return Failure{ErrorCode::Io, str("mapping a memfd: ", std::strerror(errno))};
  return SharedMemory(std::move(descriptor), data, size_bytes);
}

Status SharedMemory::seal_contents() const {
  if (::fcntl(descriptor_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
    return Failure{ErrorCode::Io, str("sealing a memfd: ", std::strerror(errno))};
  return {};
}

Status SharedMemory::write(size_t at, std::span<const std::byte> from) const {
  if (!write_whole(descriptor_.get(), from, at))
    return Failure{ErrorCode::Io, str("writing a memfd: ", std::strerror(errno))};
  return {};
}

Status SharedMemory::read(size_t at, std::span<std::byte> into) const {
  const std::optional<size_t> count = read_whole(descriptor_.get(), into, at);
  if (!count) return Failure{ErrorCode::Io, str("reading a memfd: ", std::strerror(errno))};
  if (*count < into.size())
    return Failure{ErrorCode::Io, str("reading a memfd: it ends after ", at + *count, " bytes")};
  return {};
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_bytes_);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

}  // namespace paceline::os
