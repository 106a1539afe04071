// A checkpoint on disk: one file with the state of a job after a commit, and all that is needed to
// tell whether it is whole and whether it fits.
//
//   file     := "PACECKPT" | u32 version | u32 manifest bytes | u64 XXH3 of the manifest
//               | manifest | data
//   data     := the registered parts in order of registration, then the library's own state
//   manifest := the fields of Manifest in order (live/wire/archive.h)
//
// A file counts once it has its final name, which it gets by one rename after it has reached the
// disk. So a torn one is seen only where the disk has lied; its size and checksums tell.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/model/ids.h"
#include "core/model/job.h"

namespace paceline::checkpoint {

inline constexpr size_t kChunkBytes = 1 << 20;  // what one checksum covers

// Which of two checkpoints is the newer one. `generation` counts the runs that have written to a
// directory: each begins its epochs anew. Within a run a higher epoch wins whatever its turn: after
// a roll-back turns are counted again, and what an older epoch still writes is stale.
struct Order {
  uint64_t generation = 0;
  EpochNumber epoch;
  Turn committed;
  auto operator<=>(const Order&) const = default;
};

struct Manifest {
  Order order;
  Step step;
  uint32_t round = 0;
  uint32_t micro_batches = 0;  // V
  uint64_t seed = 0;
  ReduceMode reduce = ReduceMode::Exact;
  struct Part {
    std::string name;
    uint64_t size_bytes = 0;
    bool operator==(const Part&) const = default;
  };
  std::vector<Part> parts;
  uint64_t own_state_bytes = 0;     // of the library: the scales
  std::vector<uint64_t> checksums;  // XXH3 of each chunk of the data; filled in by write_file

  uint64_t data_bytes() const;
  bool operator==(const Manifest&) const = default;
};

struct Checkpoint {
  Manifest manifest;
  std::vector<std::byte> data;
};

// Writes `path` and brings it to the disk. REQUIRES: data.size() == manifest.data_bytes().
Status write_file(const std::string& path, Manifest manifest, std::span<const std::byte> data);

// The manifest of a file that is as long as it says. Reads no data.
Result<Manifest> read_manifest(const std::string& path);

// All of it, each chunk checked.
Result<Checkpoint> read_file(const std::string& path);

}  // namespace paceline::checkpoint
