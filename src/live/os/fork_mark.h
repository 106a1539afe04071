// ForkMark: tells the process that made it from a child that has a copy of it by fork(). A page
// that the kernel empties in the child, so that a look costs a load and no call.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace paceline::os {

class ForkMark {
 public:
  ForkMark();
  ~ForkMark();
  ForkMark(const ForkMark&) = delete;
  ForkMark& operator=(const ForkMark&) = delete;

  // False in a child.
  bool is_mine() const;

 private:
  std::atomic<uint32_t>* page_ = nullptr;  // null: the kernel has no such pages
  pid_t maker_ = 0;
};

}  // namespace paceline::os
