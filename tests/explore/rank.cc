#include "rank.h"

#include <algorithm>

#include "base/check.h"
#include "base/str.h"

namespace paceline::explore {
namespace {

constexpr uint8_t kAllMicroBatches = (1u << kMicroBatches) - 1;

uint8_t bit(size_t i) { return static_cast<uint8_t>(1u << i); }

}  // namespace

RankId rank_id(size_t rank) { return {SlotId(static_cast<uint32_t>(rank)), Incarnation(1)}; }

Rank::Rank(size_t self, const Config& config, bool is_joiner)
    : self_(self),
      steps_(config.steps),
      has_overflow_(config.has_overflow),
      core_({.self = rank_id(self),
             .seed = kSeed,
             .buckets = kBuckets,
             .position = {},
             .is_joiner = is_joiner}) {}

// --- Events ---

RankSteps Rank::begin_micro_batch() {
  CHECK(!computing_);
  computing_ = core_.begin_micro_batch();
  computed_buckets_ = 0;
  return settle();
}

RankSteps Rank::accumulate() {
  CHECK(computing_ && computed_buckets_ < kBuckets);
  const size_t bucket = computed_buckets_++;
  accumulated_[bucket] |= bit(computing_->value());
  accumulated_turn_[bucket] = turn_;
  if (computed_buckets_ == kBuckets) computing_.reset();
  core_.accumulated(BucketId(static_cast<uint32_t>(bucket)));
  return settle();
}

RankSteps Rank::take_data(size_t from, const Message& message) {
  if (const auto* contribution = std::get_if<Contribution>(&message)) {
    absorb(from, *contribution);
  } else {
    core_.vote_received(std::get<Vote>(message));
  }
  return settle();
}

RankSteps Rank::take_control(const ControlMessage& message) {
  if (const auto* m = std::get_if<Announce>(&message)) {
    if (m->epoch.number > core_.promised()) announced_ = std::max(announced_, m->epoch.number);
  }
  core_.control(message);
  if (core_.is_promised() || announced_ <= core_.promised()) announced_ = {};
  return settle();
}

RankSteps Rank::apply_sums_of(const Rank& donor) {
  if (donor.turn_ <= turn_) return {};
  core_.sums_applied(is_flagged_turn());
  turn_ = turn_.next();
  return settle();
}

RankSteps Rank::learn_epoch_of(const Rank& donor) {
  if (donor.turn_ != turn_) return {};
  core_.donor_entered(donor.core_.epoch());
  return settle();
}

rank::Relation Rank::relation(const Message& data) const {
  if (const auto* contribution = std::get_if<Contribution>(&data))
    return core_.relation(contribution->epoch, contribution->turn);
  const Vote& vote = std::get<Vote>(data);
  return core_.relation(vote.epoch, vote.turn);
}

// --- What follows from an event ---

RankSteps Rank::settle() {
  RankSteps steps;
  while (steps.violation.empty()) {
    const std::vector<rank::Effect> effects = core_.take_effects();
    for (const rank::Effect& effect : effects) carry_out(effect, steps);
    if (complete_sums()) continue;
    const bool can_open = core_.phase() == rank::Phase::Member && !core_.is_open() &&
                          core_.position().step < Step(steps_) && !core_.epoch().is_last;
    if (can_open) {
      core_.begin_step();
    } else if (effects.empty()) {
      break;
    }
  }
  return steps;
}

void Rank::carry_out(const rank::Effect& effect, RankSteps& steps) {
  if (const auto* start = std::get_if<rank::StartReduction>(&effect)) {
    start_reduction(start->bucket, steps);
  } else if (const auto* vote = std::get_if<rank::SendVote>(&effect)) {
    check_promise(vote->vote.epoch, steps);
    const size_t to = epoch_.members[vote->to].rank.slot.value();
    steps.to_ranks.push_back({to, Message(vote->vote)});
  } else if (const auto* report = std::get_if<rank::SendReport>(&effect)) {
    steps.to_controller.push_back(report->report);
  } else if (const auto* quiesce = std::get_if<rank::Quiesce>(&effect)) {
    promised_ = quiesce->promised;
    for (Sum& sum : sums_)  // a complete sum is kept: the decision may commit it
      if (!sum.is_complete) sum = {};
  } else if (const auto* committed = std::get_if<rank::CommitTurn>(&effect)) {
    commit(*committed, steps);
  } else if (std::holds_alternative<rank::DropContributions>(effect)) {
    accumulated_ = {};
    computing_.reset();
  } else if (const auto* entered = std::get_if<rank::EnterEpoch>(&effect)) {
    if (entered->number <= epoch_.number) steps.violation = "L2 a switch goes back";
    epoch_ = core_.epoch();
    promised_ = std::max(promised_, epoch_.number);
    sums_ = {};
    if (announced_ <= epoch_.number) announced_ = {};
    if (epoch_.kind == EpochKind::Planned) steps.to_controller.push_back(Entered{epoch_.number});
  } else if (const auto* mismatch = std::get_if<rank::TagMismatch>(&effect)) {
    steps.violation = str("S2 the tag of bucket ", mismatch->bucket, " is not that of all");
  } else if (std::holds_alternative<rank::Leave>(effect)) {
    steps.has_left = true;
    steps.to_controller.push_back(HasLeft{});
  }
}

void Rank::start_reduction(BucketId bucket, RankSteps& steps) {
  check_promise(epoch_.number, steps);
  const size_t b = bucket.value();
  const Contribution own{.epoch = epoch_.number,
                         .turn = turn_,
                         .bucket = bucket,
                         .tag = core_.held_tag(),
                         .ghost_micro_batches = accumulated_[b],
                         .ghost_turn = accumulated_turn_[b]};
  absorb(self_, own);
  for (const Member& member : epoch_.members) {
    const size_t to = member.rank.slot.value();
    if (to != self_) steps.to_ranks.push_back({to, Message(own)});
  }
}

void Rank::absorb(size_t from, const Contribution& contribution) {
  Sum& sum = sums_[contribution.bucket.value()];
  const uint8_t micro_batches = contribution.ghost_micro_batches;
  const bool is_repeated =
      (sum.contributors & bit(from)) != 0 || (sum.micro_batches & micro_batches) != 0;
  const bool is_mixed = micro_batches != 0 && contribution.ghost_turn != turn_;
  sum.is_bad = sum.is_bad || is_repeated || is_mixed;
  sum.contributors |= bit(from);
  sum.micro_batches |= micro_batches;
  sum.tag += contribution.tag;
}

// Tells the core of sums that have become complete. True if there were any.
bool Rank::complete_sums() {
  if (core_.is_promised() || core_.phase() != rank::Phase::Member) return false;
  uint8_t members = 0;
  for (const Member& member : epoch_.members) members |= bit(member.rank.slot.value());
  for (size_t b = 0; b < kBuckets; ++b) {
    Sum& sum = sums_[b];
    if (members == 0 || sum.is_complete || (sum.contributors & members) != members) continue;
    sum.is_complete = true;
    core_.sum_reduced(BucketId(static_cast<uint32_t>(b)), sum.tag, is_flagged_turn());
    return true;
  }
  return false;
}

void Rank::commit(const rank::CommitTurn& effect, RankSteps& steps) {
  for (const Sum& sum : sums_) {
    if (!sum.is_complete || sum.is_bad || sum.micro_batches != kAllMicroBatches)
      steps.violation = "S2 a committed sum is not every micro-batch exactly once, at one scale";
  }
  if (effect.turn != turn_) steps.violation = "S5 a turn is committed out of order";
  if (computing_) steps.violation = "S2 commits while it computes a micro-batch of the turn";
  steps.commits.push_back({turn_, epoch_.number});
  turn_ = turn_.next();
  sums_ = {};
  accumulated_ = {};
}

void Rank::check_promise(EpochNumber epoch, RankSteps& steps) const {
  if (epoch < promised_) steps.violation = "S3 acts under an epoch after promising a higher one";
}

bool Rank::is_flagged_turn() const { return has_overflow_ && turn_ == Turn(0); }

uint64_t Rank::digest() const {
  Digest d;
  d.add(self_);
  core_.add_to(d);
  d.add(computing_.has_value()).add(computing_ ? computing_->value() : 0).add(computed_buckets_);
  for (size_t b = 0; b < kBuckets; ++b) {
    d.add(accumulated_[b]).add(accumulated_[b] == 0 ? 0 : accumulated_turn_[b].value());
    const Sum& sum = sums_[b];
    d.add(sum.contributors).add(sum.micro_batches).add(sum.is_bad).add(sum.is_complete);
    d.add(sum.tag);
  }
  d.add(turn_.value()).add(epoch_.number.value()).add(promised_.value()).add(announced_.value());
  return d.value();
}

}  // namespace paceline::explore
