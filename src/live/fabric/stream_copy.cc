#include "live/fabric/stream_copy.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace paceline::fabric {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kUsualLastCacheBytes = 32u << 20;

}  // namespace

void stream_copy(std::byte* to, const std::byte* from, size_t size_bytes) {
#if defined(__x86_64__)
  const size_t head =
      std::min(size_bytes, (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine);
  if (head > 0) std::memcpy(to, from, head);
  size_t at = head;
  for (; at + kLine <= size_bytes; at += kLine)
    for (size_t part = 0; part < kLine; part += sizeof(__m128i))
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at + part),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at + part)));
  _mm_sfence();  // such stores are ordered by nothing else
  if (at < size_bytes) std::memcpy(to + at, from + at, size_bytes - at);
#else
  if (size_bytes > 0) std::memcpy(to, from, size_bytes);
#endif
}

// A virtual machine may report the caches of its whole host, of which it has a small share.
size_t last_cache_bytes() {
  const long bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? std::min(static_cast<size_t>(bytes), kUsualLastCacheBytes)
                   : kUsualLastCacheBytes;
}

}  // namespace paceline::fabric
