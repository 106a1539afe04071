// All-reduce and reduce-scatter inside a host.
//
// One-shot: everybody shows all, everybody adds all. Two-shot: a message goes by in chunks, each
// cut into one shard per rank; everybody shows the others' shards, adds its own shard from all, and
// shows the result in the place in its slot where its own shard would have been. Adding chunk c and
// showing chunk c + 1 lie between the same two waits, so a chunk costs one.
//
// Sources are added in the order of ranks whoever adds them: both ways give the same bits.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "core/fabric/reduce.h"
#include "live/fabric/group.h"
#include "live/fabric/stream_copy.h"

namespace paceline::fabric {
namespace {

// The result of so many bytes is still in the first cache when it is copied to where it is shown.
constexpr uint64_t kTileBytes = 16u << 10;

constexpr uint64_t kGranuleBytes = kLineBytes;  // shards share no line

uint64_t granule_of(ElementType type) { return kGranuleBytes / size_bytes_of(type); }

void copy_elements(std::byte* to, const std::byte* from, uint64_t count, size_t size) {
  if (count > 0) std::memcpy(to, from, count * size);
}

}  // namespace

void Group::reduce_piece(const Message& message, const Piece& piece, ResultPlace place) {
  const size_t size = size_bytes_of(message.type);
  const uint64_t tile = kTileBytes / size;
  std::byte* output = static_cast<std::byte*>(message.output) + piece.output_begin * size;
  std::byte* slot = own_slot(piece.round) + piece.slot_begin * size;
  std::byte* sums = place == ResultPlace::ToSlotAndStreamed ? slot : output;
  std::array<const void*, kMaxRegionRanks> sources;
  for (uint64_t at = 0; at < piece.count; at += tile) {
    const uint64_t count = std::min(tile, piece.count - at);
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const Peer& peer = peers_[rank];
      const std::byte* input =
          rank == self_ ? static_cast<const std::byte*>(message.input) : peer.input;
      sources[rank] = input != nullptr
                          ? input + (piece.input_begin + at) * size
                          : peer.slots[piece.round % 2] + (piece.slot_begin + at) * size;
    }
    reduce({.type = message.type,
            .reduction = message.reduction,
            .sources = std::span(sources).first(ranks_),
            .destination = sums + at * size,
            .count = count});
    if (place == ResultPlace::ToSlotToo)
      copy_elements(slot + at * size, output + at * size, count, size);
    if (place == ResultPlace::ToSlotAndStreamed)
      stream_copy(output + at * size, slot + at * size, count * size);
  }
}

Status Group::all_reduce(const Message& message) {
  const uint64_t total = message.elements * size_bytes_of(message.type);
  RegionSeat::Buffers storage;
  const bool is_one_shot = total <= one_shot_bytes_;
  TRY(enter({.elements = message.elements,
             .operation = Operation::AllReduce,
             .type = message.type,
             .reduction = message.reduction},
            is_one_shot ? nullptr : shown_buffers(message, total, total, storage)));
  return is_one_shot ? all_reduce_one_shot(message) : all_reduce_two_shot(message);
}

Status Group::all_reduce_one_shot(const Message& message) {
  copy_elements(own_slot(round_), static_cast<const std::byte*>(message.input), message.elements,
                size_bytes_of(message.type));
  TRY(post_and_wait());
  TRY(compare_calls());
  reduce_piece(message,
               {.input_begin = 0,
                .slot_begin = 0,
                .output_begin = 0,
                .count = message.elements,
                .round = round_},
               ResultPlace::ToOutput);
  ++round_;
  return leave();
}

// Elements of a slot for each rank's shard.
uint64_t Group::shard_room(ElementType type) const {
  const uint64_t granule = granule_of(type);
  const uint64_t room = region_.slot_bytes() / size_bytes_of(type) / ranks_ / granule * granule;
  CHECK(room > 0, region_.slot_bytes(), " bytes for ", ranks_);
  return room;
}

Group::Chunks Group::chunks_of(const Message& message) const {
  const uint64_t room = shard_room(message.type);
  const uint64_t capacity = room * ranks_;
  const uint64_t parts = std::max<uint64_t>(1, (message.elements + capacity - 1) / capacity);
  return {.message = {.elements = message.elements,
                      .parts = static_cast<uint32_t>(parts),
                      .granule = granule_of(message.type)},
          .room = room,
          .ranks = ranks_};
}

// Shows the shards of the others; where the own one would be, there is room for the result.
void Group::show_chunk(const Message& message, const Chunks& chunks, uint32_t chunk) {
  if (is_shown_) return;
  const size_t size = size_bytes_of(message.type);
  const Partition shards = chunks.shards_of(chunk);
  const std::byte* input =
      static_cast<const std::byte*>(message.input) + chunks.message.begin(chunk) * size;
  for (uint32_t rank = 0; rank < ranks_; ++rank)
    if (rank != self_)
      copy_elements(own_slot(round_ + chunk) + rank * chunks.room * size,
                    input + shards.begin(rank) * size, shards.count(rank), size);
}

void Group::take_chunk(const Message& message, const Chunks& chunks, uint32_t chunk) {
  const size_t size = size_bytes_of(message.type);
  const Partition shards = chunks.shards_of(chunk);
  const uint64_t begin = chunks.message.begin(chunk);
  const bool is_streamed = message.elements * size >= streamed_bytes_;
  for (uint32_t step = 1; step < ranks_; ++step) {
    const uint32_t owner = (self_ + step) % ranks_;  // not all from the same one at once
    const Peer& peer = peers_[owner];
    const uint64_t at = (begin + shards.begin(owner)) * size;
    const std::byte* from = peer.output != nullptr
                                ? peer.output + at
                                : peer.slots[(round_ + chunk) % 2] + owner * chunks.room * size;
    std::byte* to = static_cast<std::byte*>(message.output) + at;
    if (is_streamed) stream_copy(to, from, shards.count(owner) * size);
    if (!is_streamed) copy_elements(to, from, shards.count(owner), size);
  }
}

Status Group::all_reduce_two_shot(const Message& message) {
  const Chunks chunks = chunks_of(message);
  const bool is_streamed = message.elements * size_bytes_of(message.type) >= streamed_bytes_;
  const ResultPlace place = is_shown_     ? ResultPlace::ToOutput
                            : is_streamed ? ResultPlace::ToSlotAndStreamed
                                          : ResultPlace::ToSlotToo;
  show_chunk(message, chunks, 0);
  TRY(post_and_wait());
  TRY(compare_calls());
  for (uint32_t chunk = 0; chunk < chunks.message.parts; ++chunk) {
    const Partition shards = chunks.shards_of(chunk);
    const uint64_t own = chunks.message.begin(chunk) + shards.begin(self_);
    reduce_piece(message,
                 {.input_begin = own,
                  .slot_begin = self_ * chunks.room,
                  .output_begin = own,
                  .count = shards.count(self_),
                  .round = round_ + chunk},
                 place);
    if (chunk + 1 < chunks.message.parts) show_chunk(message, chunks, chunk + 1);
    TRY(post_and_wait());
    take_chunk(message, chunks, chunk);
  }
  round_ += chunks.message.parts;
  return leave();
}

Status Group::reduce_scatter(const Message& message) {
  const size_t size = size_bytes_of(message.type);
  const uint64_t share = message.elements;
  RegionSeat::Buffers storage;
  TRY(enter({.elements = share,
             .operation = Operation::ReduceScatter,
             .type = message.type,
             .reduction = message.reduction},
            shown_buffers(message, share * ranks_ * size, share * size, storage)));
  const std::byte* input = static_cast<const std::byte*>(message.input);
  const uint64_t room = shard_room(message.type);
  uint64_t done = 0;
  do {
    const uint64_t now = std::min(share - done, room);
    for (uint32_t rank = 0; rank < ranks_ && !is_shown_; ++rank)
      if (rank != self_)
        copy_elements(own_slot(round_) + rank * room * size, input + (rank * share + done) * size,
                      now, size);
    TRY(post_and_wait());
    if (done == 0) TRY(compare_calls());
    reduce_piece(message,
                 {.input_begin = self_ * share + done,
                  .slot_begin = self_ * room,
                  .output_begin = done,
                  .count = now,
                  .round = round_},
                 ResultPlace::ToOutput);
    ++round_;
    done += now;
  } while (done < share);
  return leave();
}

}  // namespace paceline::fabric
