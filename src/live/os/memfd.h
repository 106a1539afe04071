// SharedMemory: a memfd of fixed size, mapped. It has no name in any file system: nothing is left
// behind, and whoever is given the descriptor can map it, also after its maker's death.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "live/os/descriptor.h"

namespace paceline::os {

class SharedMemory {
 public:
  // Zeroed memory whose size is sealed: no process that holds the descriptor can truncate it under
  // the others (which would be SIGBUS to them). `label` is what /proc shows.
  static Result<SharedMemory> make(const char* label, size_t size_bytes);
  // Maps what another process has made, whole. Refused if its size is not sealed.
  static Result<SharedMemory> attach(Descriptor descriptor);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;

  // Whoever is given the descriptor from now on can read only; what is mapped already stays as it
  // is. Everybody can see by F_GET_SEALS that the contents are complete.
  Status seal_contents() const;

  // Through the descriptor, for bulk: the first touch of each mapped page is a fault, which under
  // a hypervisor costs several times the copy. Not once the contents are sealed; `at` + size is at
  // most size_bytes().
  Status write(size_t at, std::span<const std::byte> from) const;
  Status read(size_t at, std::span<std::byte> into) const;

  int descriptor() const { return descriptor_.get(); }
  void* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  static Result<SharedMemory> map(Descriptor descriptor, size_t size_bytes);
  SharedMemory(Descriptor descriptor, void* data, size_t size_bytes)
      : descriptor_(std::move(descriptor)), data_(data), size_bytes_(size_bytes) {}

  Descriptor descriptor_;
  void* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace paceline::os
