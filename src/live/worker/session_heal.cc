// Healing: this rank as a donor of its state, and as a joiner that follows a donor (see session.h).
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "live/wire/memory_label.h"
#include "live/worker/session.h"

namespace paceline::worker {

FrameVerdict Session::take_heal(RankId sender, const FrameHeader& header,
                                std::span<const std::byte> payload) {
  has_changed_ = true;
  const bool is_asking = header.kind == FrameKind::HealAsk ||
                         header.kind == FrameKind::HealChunkAsk ||
                         header.kind == FrameKind::HealGood;
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

std::optional<Snapshot> Session::begin_copy(size_t state_bytes) {
  donor_->begin_copy(core_->position().committed);
  std::optional<Snapshot> snapshot = donor_->take_memory();
  if (!snapshot) snapshot = allocate_copy(state_bytes);
  if (!snapshot) return std::nullopt;
  snapshot->position = core_->position();
  snapshot->micro_batches = core_->epoch().micro_batches();
  return snapshot;
}

std::optional<Snapshot> Session::allocate_copy(size_t state_bytes) {
  Snapshot snapshot;
  const Status status = snapshot.allocate(wire::kSnapshotLabel, state_bytes);
  if (status) return snapshot;
  std::fprintf(stderr, "paceline: no copy for a joiner: %s\n", status.error().message.c_str());
  donor_->refuse();
  return std::nullopt;
}

void Session::give_copy(Snapshot snapshot) {
  donor_->give(std::make_shared<const Snapshot>(std::move(snapshot)));
  settle(now_);
}

std::optional<Snapshot> Session::reserve_copy_memory(uint64_t registered_bytes) {
  std::optional<Snapshot> memory = allocate_copy(registered_bytes + own_state().size());
  if (memory) donor_->reserve_memory();
  return memory;
}

void Session::give_copy_memory(Snapshot memory) {
  donor_->give_memory(std::move(memory), core_->position().committed);
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
  barrier_.loaded(snapshot.position.committed);
  digested_.reset();
  joiner_->snapshot_taken();
  is_loaded_ = true;
  settle(now);
}

void Session::confirm_snapshot(uint64_t state_digest) {
  if (joiner_ && state_digest != joiner_->snapshot().digest)
    joiner_->fail("the state that was loaded does not hash to what the donor's did");
}

// A Prepare under way has been told where this rank stands: it does not move before the decision.
void Session::follow_donor(Follow follow, Instant now) {
  while (joiner_ && joiner_->is_following() && !core_->is_promised() &&
         core_->phase() == rank::Phase::Joining) {
    const Joiner::Item* item = joiner_->front();
    if (item == nullptr) {
      if (follow.takes_sums) joiner_->level();
      break;
    }
    if (const auto* epoch = std::get_if<Epoch>(item)) {
      if (epoch->has(options_.self) && epoch->micro_batches() > 0) core_->donor_entered(*epoch);
    } else if (const auto* donors = std::get_if<Joiner::StateDigest>(item)) {
      if (!compare(*donors)) break;
    } else if (const auto* trial = std::get_if<Trial>(item)) {
      if (is_answerable(*trial)) break;  // by the program
      joiner_->fail("the donor's trial is of another turn");
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

// False: it cannot be said here; the training thread is asked for this rank's digest first.
bool Session::compare(const Joiner::StateDigest& donors) {
  if (!digested_ || digested_->turn != core_->position().committed) return false;
  if (donors == *digested_) {
    joiner_->checked();
  } else {
    joiner_->fail(str("after ", donors.turn, " turns its state hashes to ", donors.digest,
                      ", this rank's to ", digested_->digest));
  }
  return true;
}

// --- The trial (trial.h) ---

// Fast mode promises the same bits on all ranks, not whose host has made them.
bool Session::is_trial_wanted() const {
  return donor_ && options_.reduce == ReduceMode::Exact && donor_->wants_trial();
}

bool Session::has_share() const {
  const std::optional<MemberIndex> self = running_.index_of(options_.self);
  return self && std::ranges::find(running_.owner, *self) != running_.owner.end();
}

bool Session::is_answerable(const Trial& trial) const {
  return trial.turn == core_->position().committed && trial.micro_batch.value() < micro_batches();
}

bool Session::has_trial() const {
  if (!joiner_ || !joiner_->is_following() || core_->phase() != rank::Phase::Joining ||
      joiner_->front() == nullptr)
    return false;
  const auto* trial = std::get_if<Trial>(joiner_->front());
  return trial != nullptr && is_answerable(*trial);
}

// Not a micro-batch of this rank: neither the core nor whoever counts computed ones hears of it.
std::optional<MicroBatch> Session::begin_trial(Instant now) {
  if (!has_trial()) return std::nullopt;
  const Trial& trial = std::get<Trial>(*joiner_->front());
  current_ = Current{.micro_batch = trial.micro_batch,
                     .is_void = true,
                     .is_done = std::vector<bool>(buckets_.size()),
                     .trial = trial};
  enter_phase(RankPhase::Trial, now);
  return trial.micro_batch;
}

// Of a donor's only if it counts for the turn that is running still.
void Session::conclude_trial(const Current& done) {
  if (joiner_ && core_->phase() == rank::Phase::Joining) {
    joiner_->answer(*done.trial, done.digest, options_.processor);
  } else if (donor_ && !done.is_void) {
    Trial trial = *done.trial;
    trial.digest = done.digest;
    donor_->give_trial(trial);
  }
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
  barrier_.committed({.turn = commit.turn.next(), .is_open = false});
}

}  // namespace paceline::worker
