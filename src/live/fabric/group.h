// Group: one rank's side of the collectives of a region, done by the calling thread.
//
// The members go through the same sequence of rounds. In a round each shows something in its slot,
// posts ("so far"), waits until all have posted, and reads what the others show. Two rules make two
// slots per rank enough, whatever is called after what:
//
//   - Nobody writes the slot of round r before all have posted in round r - 1. A member posts in
//     round r - 1 only after it has read all that it needs of round r - 2, whose slot it was.
//   - Nobody enters a call before all have posted all of the call before, hence have left the one
//   before
//     that, whose record (RegionSeat::calls) it overwrites.
//
// No member writes into memory that belongs to another one: a rank whose operation has failed may
// use its buffers at once. A buffer in the region's arena is read by the peers where it lies; such
// an operation ends only when all have read, and a peer that reads while the owner has gone away
// finds the abort word set before it returns.
//
// A failure ends the group (Region::abort). The outcome of an operation may differ between members:
// one may have succeeded where another one found the loss of a third. A result that is given is
// right.
//
// One thread at a time; Region::abort may be called from any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "core/fabric/element.h"
#include "core/fabric/operation.h"
#include "core/fabric/partition.h"
#include "live/fabric/region.h"
#include "live/fabric/wait.h"

namespace paceline::fabric {

// Input and output are the same, or do not overlap.
struct Message {
  const void* input = nullptr;
  void* output = nullptr;
  uint64_t elements = 0;  // see CallRecord
  ElementType type = ElementType::F32;
  Reduction reduction = Reduction::Sum;
};

struct BroadcastMessage {
  void* buffer = nullptr;
  uint64_t elements = 0;
  ElementType type = ElementType::F32;
  uint32_t root = 0;
};

class Group {
 public:
  struct Options {
    Duration deadline = Duration::seconds(30);  // of each operation
    uint64_t one_shot_bytes = kChooseOneShot;   // all-reduce up to this size: every rank adds all
    uint64_t streamed_bytes = kChooseStreamed;  // all-reduce from this size: results go to memory
  };
  static constexpr uint64_t kChooseOneShot = UINT64_MAX;
  static constexpr uint64_t kChooseStreamed = UINT64_MAX;
  // The region outlives the group. Each rank makes one group in a region, once.
  Group(const Region& region, uint32_t self);
  Group(const Region& region, uint32_t self, const Options& options);

  // `elements` in, `elements` out.
  Status all_reduce(const Message& message);
  // `elements` per member in, by rank; `elements` out: the share of this rank.
  Status reduce_scatter(const Message& message);
  // `elements` in; `elements` per member out, by rank.
  Status all_gather(const Message& message);
  Status broadcast(const BroadcastMessage& message);
  Status barrier();

  uint32_t self() const { return self_; }
  uint32_t ranks() const { return ranks_; }

 private:
  struct Peer {
    RegionSeat* seat = nullptr;
    std::byte* slots[2] = {nullptr, nullptr};
    // Of the running call: where the buffers lie that this rank shows, or nullptr.
    const std::byte* input = nullptr;
    const std::byte* output = nullptr;
  };

  // --- The sequence (group.cc) ---
  Status enter(const CallRecord& call, const RegionSeat::Buffers* shown);
  void post();
  Status wait_for_all(uint32_t target);
  Status wait_for_one(uint32_t rank, uint32_t target);
  Status post_and_wait();
  // After the first post_and_wait of a call: all mean the same one. Takes down what they show.
  Status compare_calls();
  Status leave();
  Status mismatch(uint32_t rank);
  std::string text_of_mismatch() const;
  Status failure() const;
  const RegionSeat::Buffers* shown_buffers(const Message& message, uint64_t input_bytes,
                                           uint64_t output_bytes,
                                           RegionSeat::Buffers& storage) const;
  std::byte* own_slot(uint32_t round) const { return peers_[self_].slots[round % 2]; }
  uint64_t shard_room(ElementType type) const;

  // --- Reductions (group_reduce.cc) ---
  Status all_reduce_one_shot(const Message& message);
  Status all_reduce_two_shot(const Message& message);
  // All-reduce in two shots: the chunks of a message. Shard s of every chunk lies in a slot at s *
  // room: results are still being read there when the chunk after the next is shown.
  struct Chunks {
    Partition message;
    uint64_t room;  // elements
    uint32_t ranks;
    Partition shards_of(uint32_t chunk) const {
      return {.elements = message.count(chunk), .parts = ranks, .granule = message.granule};
    }
  };
  Chunks chunks_of(const Message& message) const;
  struct Piece {
    uint64_t input_begin;   // elements, in the input of every member
    uint64_t slot_begin;    // elements, in the slot of every member that shows no input
    uint64_t output_begin;  // elements, in the own output
    uint64_t count;
    uint32_t round;  // whose slots
  };
  // Where the sum of a piece goes: to the output alone, or to the own slot as well.
  enum class ResultPlace : uint8_t { ToOutput, ToSlotToo, ToSlotAndStreamed };
  void reduce_piece(const Message& message, const Piece& piece, ResultPlace place);
  void show_chunk(const Message& message, const Chunks& chunks, uint32_t chunk);
  void take_chunk(const Message& message, const Chunks& chunks, uint32_t chunk);

  const Region& region_;
  const uint32_t self_;
  const uint32_t ranks_;
  const Options options_;
  const uint64_t one_shot_bytes_;
  const uint64_t streamed_bytes_;
  std::array<Peer, kMaxRegionRanks> peers_;
  WaitLimit limit_;
  uint32_t posted_ = 0;        // own progress
  uint32_t seen_ = 0;          // what all are known to have posted
  uint32_t entry_ = 0;         // the first post of the running call
  uint32_t round_ = 0;         // whose slot is next
  CallRecord own_call_;        // the running call
  uint32_t call_ = 0;          // whose record is next
  bool is_shown_ = false;      // of the running call: this rank shows its buffers
  bool is_any_shown_ = false;  // of the running call: some rank does
};

}  // namespace paceline::fabric
