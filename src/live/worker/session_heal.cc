// Healing: this rank as a donor of its state, and as a joiner that follows a donor (see session.h).
#include <memory>
#include <utility>

#include "live/worker/session.h"

namespace paceline::worker {

FrameVerdict Session::take_heal(RankId sender, const FrameHeader& header,
                                std::span<const std::byte> payload) {
  has_changed_ = true;
  const bool is_asking =
      header.kind == FrameKind::HealAsk || header.kind == FrameKind::HealChunkAsk;
  if (!is_asking) return joiner_ ? joiner_->take(sender, header, payload) : FrameVerdict::Taken;
  if (core_->phase() == rank::Phase::Joining) return FrameVerdict::Refuse;  // nothing to give
  return donor_->take(sender, header, payload, {core_->position().committed, core_->is_open()},
                      now_);
}

void Session::heal_lost(RankId peer) {
  donor_->lost(peer);
  if (joiner_) joiner_->lost(peer);
  has_changed_ = true;
}

void Session::sweep_heals() {
  if (donor_) donor_->sweep();
  if (!joiner_) return;
  joiner_->sweep();
  for (wire::HealNotice& notice : joiner_->take_notices()) tell_agent(notice);
}

bool Session::wants_copy() const {
  return donor_ && core_->phase() != rank::Phase::Joining && !core_->is_open() &&
         donor_->wants_copy(core_->position().committed);
}

void Session::give_copy(std::vector<std::byte> bytes) {
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->position = core_->position();
  snapshot->micro_batches = core_->epoch().micro_batches();
  snapshot->bytes = std::move(bytes);
  for (size_t i = 0; i < heal_chunks(snapshot->bytes.size()); ++i)
    snapshot->checksums.push_back(checksum(heal_chunk(std::span(snapshot->bytes), i)));
  donor_->give(std::move(snapshot));
  transport_->flush();
}

void Session::snapshot_loaded(std::span<const std::byte> own_state, Instant now) {
  const Snapshot& snapshot = joiner_->snapshot();
  for (Bucket& bucket : buckets_) {
    bucket.set_micro_batches(snapshot.micro_batches);
    const size_t size_bytes = bucket.scales_bytes();
    if (!bucket.load_scales(own_state.first(size_bytes))) {
      joiner_->fail("the scales in the copy are malformed");
      break;
    }
    own_state = own_state.subspan(size_bytes);
  }
  if (snapshot.position.committed < core_->position().committed)
    joiner_->fail("the copy is older than what this rank has");
  if (!joiner_->has_snapshot()) return;
  core_->state_received(snapshot.position);
  joiner_->snapshot_taken();
  is_loaded_ = true;
  settle(now);
}

// A Prepare under way has been told where this rank stands: it does not move before the decision.
void Session::follow_donor(Follow follow, Instant now) {
  while (joiner_ && is_loaded_ && !joiner_->has_snapshot() && !core_->is_promised() &&
         core_->phase() == rank::Phase::Joining) {
    const Joiner::Item* item = joiner_->front();
    if (item == nullptr) {
      if (follow.takes_sums) joiner_->level();
      break;
    }
    if (const auto* epoch = std::get_if<Epoch>(item)) {
      if (epoch->has(options_.self) && epoch->micro_batches() > 0) core_->donor_entered(*epoch);
    } else {
      if (!follow.takes_sums) break;
      const auto& commit = std::get<Joiner::Commit>(*item);
      follow.takes_sums = commit.is_flagged;  // the program applies one step at a time
      apply(commit);
    }
    joiner_->pop();
    settle(now);
  }
  if (joiner_ && core_->phase() != rank::Phase::Joining) {
    joiner_->close();
    joiner_.reset();
  }
  settle(now);
}

void Session::apply(const Joiner::Commit& commit) {
  if (commit.turn != core_->position().committed) {
    joiner_->fail("the donor has left a turn out");
    return;
  }
  for (const Joiner::Sum& sum : commit.sums) {
    if (sum.bucket.value() >= buckets_.size()) continue;
    Bucket& bucket = buckets_[sum.bucket.value()];
    if (sum.chunk < bucket.chunk_count() && sum.payload.size() == bucket.payload_bytes(sum.chunk))
      bucket.store(sum.chunk, sum.payload, sum.tag);
  }
  for (Bucket& bucket : buckets_) bucket.commit(commit.is_flagged);
  core_->sums_applied(commit.is_flagged);
}

}  // namespace paceline::worker
