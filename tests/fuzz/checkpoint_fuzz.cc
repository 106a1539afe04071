// Checkpoints, as a resume reads them from disk. Properties: a file is refused or gives a
// checkpoint that is written as the same file again. The checksum of the manifest is put right
// first, since nothing behind it would be reached otherwise.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/str.h"
#include "fuzz/fuzz_target.h"
#include "live/checkpoint/checkpoint_file.h"
#include "live/os/descriptor.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace paceline::fuzz {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Manifest;

// The header of checkpoint_file.h: "PACECKPT" | u32 version | u32 manifest bytes | u64 checksum.
constexpr size_t kManifestBytesAt = 12;
constexpr size_t kChecksumAt = 16;
constexpr size_t kHeaderBytes = 24;

// A file in memory that has a path.
class MemoryFile {
 public:
  MemoryFile() : file_(::memfd_create("checkpoint", MFD_CLOEXEC)) { CHECK(file_.is_open()); }

  std::string path() const { return str("/proc/self/fd/", file_.get()); }
  void fill(std::span<const std::byte> bytes) const {
    CHECK(::ftruncate(file_.get(), 0) == 0);
    CHECK(::pwrite(file_.get(), bytes.data(), bytes.size(), 0) ==
          static_cast<ssize_t>(bytes.size()));
  }
  Bytes contents() const {
    Bytes bytes(static_cast<size_t>(::lseek(file_.get(), 0, SEEK_END)));
    CHECK(::pread(file_.get(), bytes.data(), bytes.size(), 0) ==
          static_cast<ssize_t>(bytes.size()));
    return bytes;
  }

 private:
  os::Descriptor file_;
};

void correct_checksum(Bytes& file) {
  uint32_t size = 0;
  if (file.size() < kHeaderBytes) return;
  std::memcpy(&size, file.data() + kManifestBytesAt, sizeof size);
  if (size > file.size() - kHeaderBytes) return;
  const uint64_t sum = XXH3_64bits(file.data() + kHeaderBytes, size);
  std::memcpy(file.data() + kChecksumAt, &sum, sizeof sum);
}

}  // namespace

Bytes make_seed(Rng& rng) {
  Manifest manifest{.order = {.generation = rng.below(4),
                              .epoch = EpochNumber(static_cast<uint32_t>(rng.below(9))),
                              .committed = Turn(rng.below(100))},
                    .step = Step(rng.below(100)),
                    .micro_batches = static_cast<uint32_t>(1 + rng.below(16)),
                    .seed = rng.next(),
                    .parts = {},
                    .own_state_bytes = rng.below(32),
                    .checksums = {}};
  for (uint64_t parts = rng.below(4); parts > 0; --parts)
    manifest.parts.push_back({.name = str("part", parts), .size_bytes = rng.below(64)});
  Bytes data(manifest.data_bytes());
  for (std::byte& byte : data) byte = static_cast<std::byte>(rng.below(256));
  const MemoryFile file;
  CHECK(checkpoint::write_file(file.path(), manifest, data).has_value());
  return file.contents();
}

void check_input(std::span<const std::byte> input) {
  Bytes bytes(input.begin(), input.end());
  correct_checksum(bytes);
  const MemoryFile file;
  file.fill(bytes);
  const Result<Manifest> manifest = checkpoint::read_manifest(file.path());
  const Result<Checkpoint> whole = checkpoint::read_file(file.path());
  if (!whole.has_value()) {
    CHECK(whole.error().code == ErrorCode::Corrupt, whole.error().message);
    return;
  }
  CHECK(manifest.has_value() && *manifest == whole->manifest);
  CHECK(whole->data.size() == manifest->data_bytes());
  const MemoryFile again;
  CHECK(checkpoint::write_file(again.path(), whole->manifest, whole->data).has_value());
  CHECK(again.contents() == bytes);
}

}  // namespace paceline::fuzz
