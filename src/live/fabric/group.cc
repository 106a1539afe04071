#include "live/fabric/group.h"

#include <cstring>

#include "base/check.h"
#include "base/str.h"
#include "live/fabric/stream_copy.h"

namespace paceline::fabric {
namespace {

// Up to here every rank adds everything by itself: one wait instead of two, n times the additions.
constexpr uint64_t kOneShotBytes = 16u << 10;

uint64_t one_shot_bytes(const Region& region, uint64_t wanted) {
  const uint64_t chosen = kOneShotBytes;
  return std::min<uint64_t>(wanted == Group::kChooseOneShot ? chosen : wanted, region.slot_bytes());
}

void copy_bytes(void* to, const void* from, uint64_t size_bytes) {
  if (size_bytes > 0 && to != from) std::memcpy(to, from, size_bytes);  // null pointers are fine
}

// Inputs and outputs of all ranks together no longer fit into the last cache.
uint64_t streamed_bytes(const Region& region, uint64_t wanted) {
  return wanted == Group::kChooseStreamed ? last_cache_bytes() / (2 * region.ranks()) : wanted;
}

ErrorCode code_of(AbortReason reason) {
  switch (reason) {
    case AbortReason::MemberLost:
      return ErrorCode::Unavailable;
    case AbortReason::Deadline:
      return ErrorCode::Timeout;
    case AbortReason::Mismatch:
      return ErrorCode::InvalidArgument;
    case AbortReason::Cancelled:
      return ErrorCode::Refused;
  }
  return ErrorCode::Corrupt;
}

}  // namespace

Group::Group(const Region& region, uint32_t self) : Group(region, self, Options()) {}

Group::Group(const Region& region, uint32_t self, const Options& options)
    : region_(region),
      self_(self),
      ranks_(region.ranks()),
      options_(options),
      one_shot_bytes_(one_shot_bytes(region, options.one_shot_bytes)),
      streamed_bytes_(streamed_bytes(region, options.streamed_bytes)) {
  CHECK(self < ranks_, self, " of ", ranks_);
  for (uint32_t rank = 0; rank < ranks_; ++rank)
    peers_[rank] = {.seat = &region.seat(rank),
                    .slots = {region.slot(rank, 0), region.slot(rank, 1)}};
  // The first touch of a page costs more than moving it: here, not in the first operations.
  std::memset(region.slot(self, 0), 0, 2 * region.slot_bytes());
}

// --- The sequence ---

// What this rank and another one have called; empty if there is no difference to be seen.
std::string Group::text_of_mismatch() const {
  const uint32_t turn = call_ % 2;
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    const RegionSeat& seat = *peers_[rank].seat;
    const bool has_entered = has_reached(seat.progress.load(std::memory_order_acquire), entry_);
    if (rank != self_ && has_entered && seat.calls[turn] != own_call_)
      return str("rank ", self_, " called ", own_call_, ", rank ", rank, " called ",
                 seat.calls[turn]);
  }
  return {};
}

Status Group::failure() const {
  // The program may change its buffers from here on. Whoever reads them meanwhile must find the
  // abort word if it finds the change.
  const std::optional<AbortCause> cause = region_.abort_cause_in_order();
  CHECK(cause.has_value());
  std::string text;
  if (cause->reason == AbortReason::Mismatch) text = text_of_mismatch();
  return Failure{code_of(cause->reason), text.empty() ? describe(*cause) : text};
}

Status Group::mismatch(uint32_t rank) {
  region_.abort({AbortReason::Mismatch, rank});
  return failure();
}

Status Group::wait_for_one(uint32_t rank, uint32_t target) {
  switch (wait_for(region_, peers_[rank].seat->progress, target, limit_)) {
    case WaitResult::Reached:
      return {};
    case WaitResult::Expired:
      // Those who have come may be waiting for each other in different calls.
      region_.abort(
          {text_of_mismatch().empty() ? AbortReason::Deadline : AbortReason::Mismatch, rank});
      return failure();
    case WaitResult::Aborted:
      return failure();
  }
  return {};
}

Status Group::wait_for_all(uint32_t target) {
  if (has_reached(seen_, target)) return {};
  for (uint32_t rank = 0; rank < ranks_; ++rank)
    if (rank != self_) TRY(wait_for_one(rank, target));
  seen_ = target;
  return {};
}

void Group::post() { publish(region_, peers_[self_].seat->progress, ++posted_); }

Status Group::post_and_wait() {
  post();
  return wait_for_all(posted_);
}

Status Group::enter(const CallRecord& call, const RegionSeat::Buffers* shown) {
  limit_ = {.limit = options_.deadline};
  const uint32_t turn = ++call_ % 2;
  own_call_ = call;
  entry_ = posted_ + 1;
  if (region_.abort_cause().has_value()) return failure();
  TRY(wait_for_all(posted_));
  RegionSeat& seat = *peers_[self_].seat;
  seat.calls[turn] = call;
  seat.shows_buffers[turn] = shown != nullptr ? 1 : 0;
  if (shown != nullptr) seat.buffers[turn] = *shown;
  is_shown_ = shown != nullptr;
  is_any_shown_ = is_shown_;
  return {};
}

Status Group::compare_calls() {
  const uint32_t turn = call_ % 2;
  const CallRecord& first = peers_[0].seat->calls[turn];
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    Peer& peer = peers_[rank];
    if (peer.seat->calls[turn] != first) return mismatch(rank);
    const bool is_shown = peer.seat->shows_buffers[turn] != 0;
    peer.input = is_shown ? region_.base() + peer.seat->buffers[turn].input : nullptr;
    peer.output = is_shown ? region_.base() + peer.seat->buffers[turn].output : nullptr;
    is_any_shown_ |= is_shown;
  }
  return {};
}

// Whoever shows a buffer stays until all have read it. It may still have gone away by an abort,
// after it had posted: then what was read is worth nothing.
Status Group::leave() {
  if (!is_any_shown_) return {};
  post();
  if (is_shown_) TRY(wait_for_all(posted_));
  return region_.abort_cause_in_order().has_value() ? failure() : Status();
}

const RegionSeat::Buffers* Group::shown_buffers(const Message& message, uint64_t input_bytes,
                                                uint64_t output_bytes,
                                                RegionSeat::Buffers& storage) const {
  if (region_.arena_bytes() == 0) return nullptr;
  storage = {.input = region_.offset_in_arena(self_, message.input, input_bytes),
             .output = region_.offset_in_arena(self_, message.output, output_bytes)};
  return storage.input != kNoOffset && storage.output != kNoOffset ? &storage : nullptr;
}

// --- Operations without arithmetic ---

Status Group::barrier() {
  TRY(enter({.operation = Operation::Barrier}, nullptr));
  TRY(post_and_wait());
  TRY(compare_calls());
  return leave();
}

Status Group::broadcast(const BroadcastMessage& message) {
  CHECK(message.root < ranks_, message.root, " of ", ranks_);
  TRY(enter({.elements = message.elements,
             .operation = Operation::Broadcast,
             .type = message.type,
             .root = message.root},
            nullptr));
  const uint64_t total = message.elements * size_bytes_of(message.type);
  std::byte* buffer = static_cast<std::byte*>(message.buffer);
  const bool is_root = self_ == message.root;
  uint64_t done = 0;
  do {
    const uint64_t now = std::min<uint64_t>(total - done, region_.slot_bytes());
    if (is_root) {
      TRY(wait_for_all(posted_));  // all have begun the round before: its other slot is free
      copy_bytes(own_slot(round_), buffer + done, now);
      post();
    } else {
      post();
      TRY(wait_for_one(message.root, posted_));
      const uint32_t turn = call_ % 2;
      if (peers_[message.root].seat->calls[turn] != peers_[self_].seat->calls[turn])
        return mismatch(self_);
      copy_bytes(buffer + done, peers_[message.root].slots[round_ % 2], now);
    }
    ++round_;
    done += now;
  } while (done < total);
  return {};
}

Status Group::all_gather(const Message& message) {
  const size_t element_bytes = size_bytes_of(message.type);
  const uint64_t total = message.elements * element_bytes;
  RegionSeat::Buffers storage;
  TRY(enter({.elements = message.elements, .operation = Operation::AllGather, .type = message.type},
            shown_buffers(message, total, total * ranks_, storage)));
  const std::byte* input = static_cast<const std::byte*>(message.input);
  std::byte* output = static_cast<std::byte*>(message.output);
  uint64_t done = 0;
  do {
    const uint64_t now = std::min<uint64_t>(total - done, region_.slot_bytes());
    if (!is_shown_) copy_bytes(own_slot(round_), input + done, now);
    TRY(post_and_wait());
    if (done == 0) TRY(compare_calls());
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const Peer& peer = peers_[rank];
      const std::byte* from = rank == self_           ? input + done
                              : peer.input != nullptr ? peer.input + done
                                                      : peer.slots[round_ % 2];
      std::byte* to = output + rank * total + done;
      copy_bytes(to, from, now);
    }
    ++round_;
    done += now;
  } while (done < total);
  return leave();
}

}  // namespace paceline::fabric
