// Another process's memory: where its memfds are mapped, and their bytes.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::fault {

struct Mapping {
  uintptr_t begin = 0;
  size_t size_bytes = 0;
  uint64_t inode = 0;  // of the memfd: no other has it, in any process
};

// Mappings of memfds with this label, from their first byte. Empty if the process has ended.
std::vector<Mapping> memfds_of(pid_t process, const char* label);

// True if all bytes were read. Other threads of the process may write meanwhile.
bool read_memory(pid_t process, uintptr_t from, void* to, size_t size_bytes);
bool write_memory(pid_t process, uintptr_t to, const void* from, size_t size_bytes);

}  // namespace paceline::fault
