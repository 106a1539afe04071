#include "core/collective/ring.h"

#include "base/check.h"

namespace paceline::collective {

RingReduction::RingReduction(const Shape& shape)
    : members_(shape.members), self_(shape.self), states_(shape.chunks, ChunkState::Idle) {
  CHECK(shape.self < shape.members, shape.self, " of ", shape.members);
  CHECK(shape.chunks >= 1);
}

void RingReduction::own_ready() {
  CHECK(!is_own_ready_);
  is_own_ready_ = true;
  for (uint32_t chunk = 0; chunk < states_.size(); ++chunk)
    if (states_[chunk] == ChunkState::Partial || distance(chunk) == 0) contribute(chunk);
}

bool RingReduction::received(uint32_t chunk, uint32_t hop) {
  if (chunk >= states_.size() || members_ == 1) return false;
  const uint32_t from_start = distance(chunk);
  ChunkState& state = states_[chunk];
  if (hop == from_start && hop > 0 && state == ChunkState::Idle) {
    state = ChunkState::Partial;
    if (is_own_ready_) contribute(chunk);
    return true;
  }
  // The complete sum contains the own contribution: it cannot come before that has been sent.
  if (hop == members_ + from_start && state == ChunkState::Sent) {
    if (from_start + 2u < members_) act(RingAction::Kind::SendSum, chunk, hop + 1);
    has_sum(chunk);
    return true;
  }
  return false;
}

// The own contribution joins the chunk, and the chunk goes on.
void RingReduction::contribute(uint32_t chunk) {
  const uint32_t from_start = distance(chunk);
  if (members_ == 1) {
    act(RingAction::Kind::CopyOwn, chunk, 0);
    has_sum(chunk);
    return;
  }
  if (from_start == 0) {
    act(RingAction::Kind::SendOwn, chunk, 1);
  } else {
    act(RingAction::Kind::AddOwn, chunk, 0);
    act(RingAction::Kind::SendSum, chunk, from_start + 1);
  }
  states_[chunk] = ChunkState::Sent;
  if (from_start + 1u == members_) has_sum(chunk);
}

void RingReduction::has_sum(uint32_t chunk) {
  CHECK(states_[chunk] != ChunkState::Complete);
  states_[chunk] = ChunkState::Complete;
  ++complete_chunks_;
  if (is_complete()) act(RingAction::Kind::Complete, 0, 0);
}

uint32_t RingReduction::distance(uint32_t chunk) const {
  return (self_ + members_ - chunk % members_) % members_;
}

}  // namespace paceline::collective
