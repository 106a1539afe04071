// Region: the shared memory of one group of ranks on one host, and the first reason for its end.
//
//   region   := header seat[ranks] slot[ranks][2] arena[ranks]
//   header   := shape, abort word, number of sleepers
//   seat     := how far its rank has come, and what it calls; written by that rank alone
//   slot     := what a rank shows to the others in one round; the two take turns
//   arena    := buffers that peers read where they are (SharedBuffer)
//
// It has no lock: a process that is killed at any instruction leaves a seat that no longer
// advances, and the others find that out by a deadline or by being told (abort).
//
// An abort is for ever: a group that has lost a member is made again, in a new region. The first
// reason wins, so that every survivor reports the same.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "core/fabric/operation.h"
#include "live/os/descriptor.h"
#include "live/os/memfd.h"

namespace paceline::fabric {

inline constexpr const char* kRegionLabel = "paceline-fabric";
inline constexpr uint32_t kMaxRegionRanks = 64;
inline constexpr size_t kLineBytes = 64;

enum class AbortReason : uint8_t {
  MemberLost = 1,  // its process has ended
  Deadline,        // it did not come within an operation's deadline
  Mismatch,        // it called something else than this rank
  Cancelled,       // by the program
};

struct AbortCause {
  AbortReason reason = AbortReason::Cancelled;
  uint32_t rank = 0;  // whom it is about; who cancelled, for Cancelled
  bool operator==(const AbortCause&) const = default;
};
std::string describe(const AbortCause& cause);

// One rank's place. Peers look at `progress` all the time, so it has its line for itself, with what
// they need to know in the same look.
struct alignas(2 * kLineBytes) RegionSeat {
  // How many times its rank has said "so far" (Group::post). Wraps.
  std::atomic<uint32_t> progress;
  uint32_t shows_buffers[2];  // 1: of that call, `buffers` counts
  CallRecord calls[2];        // this call and the one before, by turns
  struct Buffers {
    uint64_t input = 0;  // offset from the start of the region, or kNoOffset
    uint64_t output = 0;
  };
  alignas(kLineBytes) Buffers buffers[2];
};
inline constexpr uint64_t kNoOffset = UINT64_MAX;

struct RegionHeader {
  uint64_t magic;
  uint32_t ranks;
  uint32_t
      cores;  // processors that the ranks share; the same number for all, whatever each may use
  uint64_t slot_bytes;
  uint64_t arena_bytes;
  alignas(kLineBytes) std::atomic<uint64_t> abort;  // 0, or a cause
  // Ranks that sleep, or are about to. Those killed in their sleep stay counted: that costs others
  // a system call per post and nothing else.
  alignas(kLineBytes) std::atomic<uint32_t> sleepers;
};

class Region {
 public:
  struct Options {
    uint32_t ranks = 1;
    uint32_t cores = 1;
    size_t slot_bytes = 0;   // 0: chosen for ranks and cores
    size_t arena_bytes = 0;  // per rank; untouched pages take no memory
  };
  static Result<Region> make(const Options& options);
  static Result<Region> attach(os::Descriptor descriptor);

  int descriptor() const { return memory_.descriptor(); }
  uint32_t ranks() const { return header().ranks; }
  uint32_t cores() const { return header().cores; }
  size_t slot_bytes() const { return header().slot_bytes; }
  size_t arena_bytes() const { return header().arena_bytes; }

  RegionHeader& header() const { return *reinterpret_cast<RegionHeader*>(base()); }
  RegionSeat& seat(uint32_t rank) const;
  std::byte* slot(uint32_t rank, uint32_t turn) const;  // turn: 0 or 1
  std::byte* arena(uint32_t rank) const;
  std::byte* base() const { return static_cast<std::byte*>(memory_.data()); }

  // Where `data` lies, if all its bytes are in the arena of `rank`.
  uint64_t offset_in_arena(uint32_t rank, const void* data, size_t size_bytes) const;

  // Ends every operation of every member, now and later; from any thread or process. Returns false
  // if there was a reason already, which stays.
  bool abort(const AbortCause& cause) const;
  std::optional<AbortCause> abort_cause() const;
  // The same, in order with the memory accesses around it: none that comes before may have seen
  // what was written after an abort that this does not see, and none that comes after is visible
  // before.
  std::optional<AbortCause> abort_cause_in_order() const;

 private:
  explicit Region(os::SharedMemory memory) : memory_(std::move(memory)) {}
  os::SharedMemory memory_;
};

}  // namespace paceline::fabric
