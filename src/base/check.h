// CHECK(condition, values...): a bug, not an expected failure. Always on; prints the values;
// aborts.
//
// The controller and the agents are restarted from their journal after an abort. The worker library
// must not abort a training process for the fault of a peer: it checks only its own invariants.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/str.h"

namespace paceline {

[[noreturn]] inline void check_failed(const char* file, int line, const char* condition,
                                      const std::string& values) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s %s\n", file, line, condition, values.c_str());
  std::abort();
}

}  // namespace paceline

#define CHECK(condition, ...)                                                                 \
  do {                                                                                        \
    if (!(condition)) [[unlikely]]                                                            \
      ::paceline::check_failed(__FILE__, __LINE__, #condition, ::paceline::str(__VA_ARGS__)); \
  } while (false)
