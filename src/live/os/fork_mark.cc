#include "live/os/fork_mark.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace paceline::os {
namespace {

constexpr size_t kPageBytes = 4096;  // the kernel rounds up

}  // namespace

ForkMark::ForkMark() : maker_(::getpid()) {
  void* page =
      ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (::madvise(page, kPageBytes, MADV_WIPEONFORK) != 0) {
    ::munmap(page, kPageBytes);
    return;
  }
  page_ = new (page) std::atomic<uint32_t>(1);
}

ForkMark::~ForkMark() {
  if (page_ != nullptr) ::munmap(page_, kPageBytes);
}

bool ForkMark::is_mine() const {
  if (page_ == nullptr) return maker_ == ::getpid();
  return page_->load(std::memory_order_relaxed) != 0;
}

}  // namespace paceline::os
