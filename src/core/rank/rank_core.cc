#include "core/rank/rank_core.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "core/model/micro_batch.h"

namespace paceline::rank {

RankCore::RankCore(const Config& config)
    : self_(config.self),
      seed_(config.seed),
      phase_(config.is_joiner ? Phase::Joining : Phase::Member),
      position_(config.position),
      buckets_(config.buckets) {
  CHECK(config.buckets >= 1 && config.buckets <= kMaxBuckets, config.buckets);
}

// --- The training thread ---

void RankCore::begin_step() {
  is_open_ = true;
  settle();
}

std::optional<MicroBatch> RankCore::begin_micro_batch() {
  for (const Bucket& bucket : buckets_)
    CHECK(bucket.accumulated == held_.size(), "the micro-batch before is not in every bucket");
  if (!is_running() || todo_.empty()) return std::nullopt;
  const MicroBatch m = *todo_.begin();
  todo_.erase(todo_.begin());
  held_.insert(m);
  return m;
}

void RankCore::accumulated(BucketId id) {
  CHECK(id.value() < buckets_.size(), id);
  Bucket& bucket = buckets_[id.value()];
  CHECK(bucket.accumulated < held_.size(), "a contribution outside the share");
  ++bucket.accumulated;
  settle();
}

// --- Peers ---

Relation RankCore::relation(EpochNumber epoch, Turn turn) const {
  if (phase_ == Phase::Left) return Relation::Old;
  if (epoch < promised_ || epoch < epoch_.number) return Relation::Old;
  if (epoch == epoch_.number && turn < position_.committed) return Relation::Old;
  const bool is_here = epoch == epoch_.number && turn == position_.committed;
  return is_here && phase_ == Phase::Member && !is_promised_ ? Relation::Current : Relation::Newer;
}

void RankCore::vote_received(const Vote& vote) {
  CHECK(relation(vote.epoch, vote.turn) == Relation::Current);
  votes_.receive(vote);
  settle();
}

void RankCore::sum_reduced(BucketId id, uint64_t tag, bool is_flagged) {
  CHECK(id.value() < buckets_.size(), id);
  Bucket& bucket = buckets_[id.value()];
  CHECK(is_running() && bucket.is_sent && !bucket.has_sum, id);
  const uint64_t expected = complete_tag();
  bucket.has_sum = true;
  bucket.is_flagged = is_flagged;
  bucket.is_mismatched = tag != expected;
  if (bucket.is_mismatched) effects_.push_back(TagMismatch{id, expected, tag});
  settle();
}

// --- The controller ---

void RankCore::control(const ControlMessage& message) {
  if (phase_ == Phase::Left) return;
  std::visit([this](const auto& m) { take(m); }, message);
}

void RankCore::take(const Announce& message) {  // rule 8
  if (message.epoch.number <= promised_) return;
  if (planned_ && planned_->number >= message.epoch.number) return;
  planned_ = message.epoch;
}

void RankCore::take(const Prepare& message) {  // rule 9
  if (message.number < promised_) return;
  if (message.number == promised_ && !is_promised_) return;  // decided already
  if (message.number > promised_) effects_.push_back(Quiesce{message.number});
  promised_ = message.number;
  is_promised_ = true;
  planned_.reset();
  PrepareReport report{.prepare = promised_,
                       .epoch = epoch_.number,
                       .committed = position_.committed,
                       .step = position_.step,
                       .has_voted = votes_.has_cast(),
                       .held = {}};
  report.held.assign(held_.begin(), held_.end());
  effects_.push_back(SendReport{std::move(report)});
}

void RankCore::take(const Activate& message) {  // rule 18
  const Epoch& next = message.epoch;
  if (!is_promised_ || next.number != promised_) return;
  CHECK(next.has(self_) && next.kind == EpochKind::Emergency, self_);
  CHECK(position_.committed <= next.target, position_.committed, " > ", next.target);
  if (position_.committed < next.target) {
    CHECK(position_.committed.next() == next.target && votes_.has_cast(),
          "told to roll forward without the sums");
    commit_turn();
  }
  CHECK(next.lost_owner.size() == next.owner.size());
  const bool is_held_void = std::any_of(held_.begin(), held_.end(), [&](MicroBatch m) {
    return next.lost_owner[m.value()] != kNoMember;
  });
  if (is_held_void || next.is_last) drop_contributions();
  phase_ = Phase::Member;
  is_promised_ = false;
  enter(next);
  if (next.is_last) {
    is_open_ = false;
    return;
  }
  take_lost_share();
  settle();
}

void RankCore::take(const Out& message) {  // rule 19
  if (message.number < promised_ || epoch_.number >= message.number) return;
  promised_ = message.number;
  if (phase_ == Phase::Joining) {
    is_promised_ = false;
    return;
  }
  if (position_.committed.next() == message.target && votes_.has_cast()) commit_turn();
  leave();
}

// --- A joiner's transfer ---

void RankCore::state_received(const Position& position) {
  CHECK(phase_ == Phase::Joining);
  CHECK(position.committed >= position_.committed);
  position_ = position;
}

void RankCore::sums_applied(bool is_flagged) {
  CHECK(phase_ == Phase::Joining);
  advance(is_flagged);
}

void RankCore::donor_entered(const Epoch& epoch) {  // rule 21
  if (phase_ != Phase::Joining || is_promised_) return;
  if (epoch.number < promised_ || epoch.number <= epoch_.number || !epoch.has(self_)) return;
  phase_ = Phase::Member;
  promised_ = epoch.number;
  enter(epoch);
  take_regular_share();
  settle();
}

// --- What follows from an event ---

void RankCore::settle() {
  if (!is_running() || epoch_.number == EpochNumber(0)) return;
  send_final_buckets();
  vote_if_complete();
  for (const OutgoingVote& outgoing : votes_.take_outgoing())
    effects_.push_back(SendVote{outgoing.to, outgoing.vote});
  if (!votes_.is_complete()) return;

  const EpochNumber carried = votes_.carried();
  commit_turn();
  if (carried != EpochNumber(0)) {  // rule 6: every vote names it, this rank's own too
    const std::optional<Epoch> next = planned_;
    CHECK(next && next->number >= carried && carried > epoch_.number, carried);
    CHECK(next->number == carried, "one planned epoch is announced at a time");
    promised_ = std::max(promised_, carried);
    if (!next->has(self_)) {
      leave();
      return;
    }
    enter(*next);
  }
  take_regular_share();
  settle();  // at most once more: a commit that is not flagged closes the turn
}

void RankCore::send_final_buckets() {  // rule 4
  if (!todo_.empty()) return;
  for (uint32_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    if (bucket.is_sent || bucket.accumulated != held_.size()) continue;
    bucket.is_sent = true;
    effects_.push_back(StartReduction{BucketId(b)});
  }
}

void RankCore::vote_if_complete() {  // rule 5
  if (votes_.has_cast() || !holds_all_sums()) return;
  votes_.cast(planned_ ? planned_->number : EpochNumber(0));
}

bool RankCore::holds_all_sums() const {
  return std::all_of(buckets_.begin(), buckets_.end(),
                     [](const Bucket& b) { return b.has_sum && !b.is_mismatched; });
}

// The only place where the sums of a turn become final.
void RankCore::commit_turn() {
  CHECK(holds_all_sums());
  const bool is_flagged =
      std::any_of(buckets_.begin(), buckets_.end(), [](const Bucket& b) { return b.is_flagged; });
  effects_.push_back(CommitTurn{position_.committed, position_.step, is_flagged});
  if (!is_flagged) is_open_ = false;
  held_.clear();
  todo_.clear();
  for (Bucket& bucket : buckets_) bucket = Bucket{};
  advance(is_flagged);
  clear_sums();
}

void RankCore::advance(bool is_flagged) {
  position_.committed = position_.committed.next();
  if (is_flagged) {
    ++position_.round;
  } else {
    position_.round = 0;
    position_.step = position_.step.next();
  }
}

void RankCore::enter(const Epoch& epoch) {
  CHECK(epoch.number > epoch_.number, epoch.number, " after ", epoch_.number);
  const bool is_divided_anew = epoch.micro_batches() != epoch_.micro_batches();
  epoch_ = epoch;
  self_index_ = epoch_.index_of(self_);
  share_.clear();
  for (uint32_t m = 0; m < epoch_.micro_batches(); ++m)
    if (self_index_ && epoch_.owner[m] == *self_index_) share_.push_back(MicroBatch(m));
  if (is_divided_anew) complete_tags_ = CompleteTags(seed_, epoch_.micro_batches());
  if (planned_ && planned_->number <= epoch.number) planned_.reset();
  todo_.clear();  // nothing of an older share that was not begun remains
  clear_sums();
  effects_.push_back(EnterEpoch{epoch.number});
}

void RankCore::clear_sums() {
  for (Bucket& bucket : buckets_) {
    bucket.is_sent = false;
    bucket.has_sum = false;
    bucket.is_flagged = false;
    bucket.is_mismatched = false;
  }
  votes_ = self_index_ ? VoteExchange(epoch_.number, position_.committed, *self_index_,
                                      static_cast<MemberIndex>(epoch_.members.size()))
                       : VoteExchange();
}

void RankCore::drop_contributions() {
  held_.clear();
  for (Bucket& bucket : buckets_) bucket.accumulated = 0;
  effects_.push_back(DropContributions{});
}

void RankCore::take_regular_share() {
  for (const MicroBatch m : share_) take_unless_skipped(m);
}

void RankCore::take_lost_share() {
  for (uint32_t m = 0; m < epoch_.micro_batches(); ++m)
    if (epoch_.lost_owner[m] == *self_index_) take_unless_skipped(MicroBatch(m));
}

void RankCore::take_unless_skipped(MicroBatch m) {
  if (!epoch_.skips(position_.step, m)) todo_.insert(m);
}

void RankCore::leave() {
  phase_ = Phase::Left;
  is_promised_ = false;
  todo_.clear();
  effects_.push_back(Leave{});
}

// --- Queries ---

std::vector<Effect> RankCore::take_effects() { return std::exchange(effects_, {}); }

uint64_t RankCore::held_tag() const {
  uint64_t sum = 0;
  for (const MicroBatch m : held_) sum += micro_batch_tag(seed_, position_.step, m);
  return sum;
}

void RankCore::add_to(Digest& digest) const {
  digest.add(static_cast<uint8_t>(phase_)).add(promised_.value()).add(is_promised_);
  epoch_.add_to(digest);
  digest.add(planned_.has_value());
  if (planned_) planned_->add_to(digest);
  digest.add(position_.committed.value()).add(position_.step.value()).add(position_.round);
  digest.add(is_open_).add(todo_.size()).add(held_.size());
  for (const MicroBatch m : todo_) digest.add(m.value());
  for (const MicroBatch m : held_) digest.add(m.value());
  for (const Bucket& bucket : buckets_) {
    digest.add(bucket.accumulated).add(bucket.is_sent).add(bucket.has_sum);
    digest.add(bucket.is_flagged).add(bucket.is_mismatched);
  }
  votes_.add_to(digest);
}

}  // namespace paceline::rank
