// Watch: a descriptor watched by a loop, for as long as this object lives.
#pragma once

#include <cstdint>
#include <utility>

#include "live/os/loop.h"

namespace paceline::os {

class Watch {
 public:
  // `descriptor` must stay open, and `loop` alive, until this is gone.
  Watch(Loop& loop, int descriptor, uint32_t events, Loop::ReadyFunction on_ready)
      : loop_(&loop), descriptor_(descriptor) {
    loop.watch(descriptor, events, std::move(on_ready));
  }
  ~Watch() {
    if (loop_ != nullptr) loop_->unwatch(descriptor_);
  }
  Watch(Watch&& other) noexcept
      : loop_(std::exchange(other.loop_, nullptr)), descriptor_(other.descriptor_) {}
  Watch& operator=(Watch&& other) noexcept {
    std::swap(loop_, other.loop_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  void rewatch(uint32_t events) { loop_->rewatch(descriptor_, events); }

 private:
  Loop* loop_;
  int descriptor_;
};

}  // namespace paceline::os
