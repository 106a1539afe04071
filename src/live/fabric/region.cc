#include "live/fabric/region.h"

#include <sys/mman.h>

#include <new>

#include "base/check.h"
#include "base/str.h"
#include "live/fabric/futex.h"

namespace paceline::fabric {
namespace {

constexpr uint64_t kMagic = 0x7061'6365'6661'6231;  // "pacefab1"
constexpr size_t kPageBytes = 4096;
constexpr size_t kHugePageBytes = 2u << 20;

// A rank's slot holds what one round moves: little enough that all slots stay in the caches, enough
// that a round is long beside the change of process that ends it where ranks share cores.
constexpr size_t kSlotBytesOwnCore = 256u << 10;
constexpr size_t kSlotBytesSharedCore = 512u << 10;

constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

struct Layout {
  uint64_t seats;
  uint64_t slots;
  uint64_t arenas;
  uint64_t total;
};

Layout layout_of(uint32_t ranks, uint64_t slot_bytes, uint64_t arena_bytes) {
  Layout layout{};
  layout.seats = round_up(sizeof(RegionHeader), alignof(RegionSeat));
  layout.slots = round_up(layout.seats + ranks * sizeof(RegionSeat), kHugePageBytes);
  layout.arenas = round_up(layout.slots + 2 * ranks * slot_bytes, kHugePageBytes);
  layout.total = layout.arenas + ranks * arena_bytes;
  return layout;
}

// Fewer page faults and address translations, where the system grants them to shared memory.
void ask_for_huge_pages(const os::SharedMemory& memory) {
  ::madvise(memory.data(), memory.size_bytes(), MADV_HUGEPAGE);
}

Layout layout_of(const RegionHeader& header) {
  return layout_of(header.ranks, header.slot_bytes, header.arena_bytes);
}

std::optional<AbortCause> cause_of(uint64_t abort_word) {
  if (abort_word == 0) return std::nullopt;
  return AbortCause{static_cast<AbortReason>(abort_word >> 32 & 0xff),
                    static_cast<uint32_t>(abort_word)};
}

}  // namespace

std::string describe(const AbortCause& cause) {
  switch (cause.reason) {
    case AbortReason::MemberLost:
      return str("rank ", cause.rank, " was lost");
    case AbortReason::Deadline:
      return str("rank ", cause.rank, " did not come before the deadline");
    case AbortReason::Mismatch:
      return str("rank ", cause.rank, " called something else");
    case AbortReason::Cancelled:
      return str("rank ", cause.rank, " cancelled");
  }
  return "damaged abort word";
}

Result<Region> Region::make(const Options& options) {
  if (options.ranks < 1 || options.ranks > kMaxRegionRanks)
    return Failure{ErrorCode::InvalidArgument, str("region of ", options.ranks, " ranks; 1 to ",
                                                   kMaxRegionRanks, " share one")};
  const bool has_own_core = options.ranks <= options.cores;
  const uint64_t chosen = has_own_core ? kSlotBytesOwnCore : kSlotBytesSharedCore;
  const uint64_t wanted = options.slot_bytes == 0 ? chosen : options.slot_bytes;
  const uint64_t slot_bytes = round_up(wanted, kPageBytes);
  const uint64_t arena_bytes = round_up(options.arena_bytes, kHugePageBytes);
  const Layout layout = layout_of(options.ranks, slot_bytes, arena_bytes);
  TRY_ASSIGN(os::SharedMemory memory, os::SharedMemory::make(kRegionLabel, layout.total));
  ask_for_huge_pages(memory);
  RegionHeader* header = new (memory.data()) RegionHeader{};
  header->ranks = options.ranks;
  header->cores = options.cores;
  header->slot_bytes = slot_bytes;
  header->arena_bytes = arena_bytes;
  header->magic = kMagic;
  Region region(std::move(memory));
  for (uint32_t rank = 0; rank < options.ranks; ++rank) new (&region.seat(rank)) RegionSeat{};
  return region;
}

Result<Region> Region::attach(os::Descriptor descriptor) {
  TRY_ASSIGN(os::SharedMemory memory, os::SharedMemory::attach(std::move(descriptor)));
  const RegionHeader& header = *static_cast<const RegionHeader*>(memory.data());
  const bool is_ours = memory.size_bytes() >= sizeof(RegionHeader) && header.magic == kMagic;
  if (!is_ours || header.ranks < 1 || header.ranks > kMaxRegionRanks ||
      layout_of(header).total != memory.size_bytes())
    return Failure{
        ErrorCode::Corrupt,
        str("shared memory of ", memory.size_bytes(),
            " bytes is no fabric region of this version; start all ranks with one version")};
  ask_for_huge_pages(memory);
  return Region(std::move(memory));
}

RegionSeat& Region::seat(uint32_t rank) const {
  return reinterpret_cast<RegionSeat*>(base() + layout_of(header()).seats)[rank];
}

std::byte* Region::slot(uint32_t rank, uint32_t turn) const {
  return base() + layout_of(header()).slots + (2 * rank + turn) * slot_bytes();
}

std::byte* Region::arena(uint32_t rank) const {
  return base() + layout_of(header()).arenas + rank * arena_bytes();
}

uint64_t Region::offset_in_arena(uint32_t rank, const void* data, size_t size_bytes) const {
  const std::byte* at = static_cast<const std::byte*>(data);
  const std::byte* begin = arena(rank);
  const std::byte* end = begin + arena_bytes();
  const bool is_inside = at >= begin && at < end && size_bytes <= static_cast<size_t>(end - at);
  return is_inside ? static_cast<uint64_t>(at - base()) : kNoOffset;
}

// The word is `1, reason, rank` from the top. Release and acquire: whoever sees the word sees what
// led to it.
bool Region::abort(const AbortCause& cause) const {
  const uint64_t word =
      uint64_t{1} << 63 | uint64_t{static_cast<uint8_t>(cause.reason)} << 32 | cause.rank;
  uint64_t none = 0;
  if (!header().abort.compare_exchange_strong(none, word, std::memory_order_acq_rel)) return false;
  // Sleepers look again by themselves soon; this is only sooner.
  for (uint32_t rank = 0; rank < ranks(); ++rank) futex_wake_all(seat(rank).progress);
  return true;
}

std::optional<AbortCause> Region::abort_cause() const {
  return cause_of(header().abort.load(std::memory_order_acquire));
}

// A read-modify-write rather than a fence, which ThreadSanitizer does not know.
std::optional<AbortCause> Region::abort_cause_in_order() const {
  return cause_of(header().abort.fetch_or(0, std::memory_order_acq_rel));
}

}  // namespace paceline::fabric
