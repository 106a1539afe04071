#include "live/fault/memory_of.h"

#include <sys/uio.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "base/str.h"

namespace paceline::fault {

std::vector<Mapping> memfds_of(pid_t process, const char* label) {
  std::vector<Mapping> found;
  const std::string ending = str(" /memfd:", label, " (deleted)");
  std::ifstream maps(str("/proc/", process, "/maps"));
  // begin-end permissions offset device inode path
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with(ending)) continue;
    unsigned long begin = 0;
    unsigned long end = 0;
    unsigned long offset = 0;
    unsigned long inode = 0;
    const int fields =
        std::sscanf(line.c_str(), "%lx-%lx %*s %lx %*s %lu", &begin, &end, &offset, &inode);
    if (fields != 4 || offset != 0) continue;
    found.push_back({.begin = begin, .size_bytes = end - begin, .inode = inode});
  }
  return found;
}

bool read_memory(pid_t process, uintptr_t from, void* to, size_t size_bytes) {
  const iovec local{.iov_base = to, .iov_len = size_bytes};
  const iovec remote{.iov_base = reinterpret_cast<void*>(from), .iov_len = size_bytes};
  return ::process_vm_readv(process, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size_bytes);
}

bool write_memory(pid_t process, uintptr_t to, const void* from, size_t size_bytes) {
  const iovec local{.iov_base = const_cast<void*>(from), .iov_len = size_bytes};
  const iovec remote{.iov_base = reinterpret_cast<void*>(to), .iov_len = size_bytes};
  return ::process_vm_writev(process, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size_bytes);
}

}  // namespace paceline::fault
