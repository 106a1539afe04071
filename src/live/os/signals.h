// Signals of a daemon as a file descriptor for its loop.
#pragma once

#include <initializer_list>
#include <vector>

#include "base/result.h"

namespace paceline::os {

// Blocks the given signals in the calling thread and all threads that it starts afterwards, and
// reads them. Make it before any other thread exists.
class SignalDescriptor {
 public:
  static Result<SignalDescriptor> open(std::initializer_list<int> signals);
  ~SignalDescriptor();
  SignalDescriptor(SignalDescriptor&& other) noexcept;
  SignalDescriptor& operator=(SignalDescriptor&& other) noexcept;

  int descriptor() const { return descriptor_; }
  // The signals that have arrived since the last call; never blocks.
  std::vector<int> read();

 private:
  explicit SignalDescriptor(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace paceline::os
