#include "core/control/membership.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace paceline::control {

Membership::Membership(uint32_t micro_batches, const WorkDivider& divider)
    : micro_batches_(micro_batches), divider_(divider) {
  CHECK(micro_batches >= 1 && micro_batches <= kMaxMicroBatches, micro_batches);
}

// --- Start and restart ---

// The first epoch is a planned one that its members enter by a Prepare: they are in none before.
void Membership::start(const std::vector<Member>& members) {
  CHECK((phase_ == Phase::New || phase_ == Phase::Stopped) && !members.empty());
  base_.members = members;  // number 0: who may be asked; nobody can commit under it
  effects_.push_back(MembershipRecord(EpochDecided{base_}));
  start_prepare();
}

void Membership::stop() {
  phase_ = Phase::Stopped;
  base_ = {};
  planned_.reset();
  entered_planned_.clear();
  lost_.clear();
  clear_prepare();
}

void Membership::restore(const MembershipRecord& record) {
  phase_ = Phase::Idle;
  if (const auto* started = std::get_if<PrepareStarted>(&record)) {
    next_number_ = started->number.next();
    preparing_ = started->number;
    phase_ = Phase::Preparing;
  } else if (const auto* announced = std::get_if<EpochAnnounced>(&record)) {
    next_number_ = announced->epoch.number.next();
    planned_ = announced->epoch;
  } else if (const auto* decided = std::get_if<EpochDecided>(&record)) {
    base_ = decided->epoch;
    planned_.reset();
    preparing_ = EpochNumber(0);
    skips_.insert(base_.skipped.begin(), base_.skipped.end());
  } else if (const auto* settled = std::get_if<EpochSettled>(&record)) {
    CHECK(planned_ && planned_->number == settled->number, settled->number);
    base_ = *std::exchange(planned_, std::nullopt);
  }
}

void Membership::resume() {  // rule 23
  lost_.clear();
  entered_planned_.clear();
  if (phase_ == Phase::New || phase_ == Phase::Stopped) return;
  // Number 0: the journal ends between the first members and the first Prepare. Nobody can be in
  // that epoch, so there is no decision to repeat.
  if (phase_ == Phase::Preparing || base_.number == EpochNumber(0)) {
    start_prepare();
    return;
  }
  for (const Member& member : base_.members) repeat(member.rank);
}

// --- What happens to ranks ---

void Membership::lost(RankId rank, Loss loss) {
  if (phase_ == Phase::New || phase_ == Phase::Stopped || !may_be_in_force(rank)) return;
  const auto known = lost_.find(rank);
  if (known != lost_.end()) {
    if (known->second == loss || known->second == Loss::Ended) return;
    known->second = loss;
    if (phase_ == Phase::Waiting) start_prepare();  // may now be known to be hopeless
    return;
  }
  lost_[rank] = loss;
  if (phase_ != Phase::Preparing) {
    start_prepare();
    return;
  }
  targets_.erase(rank);  // the number stays: who has reported has not moved since
  reports_.erase(rank);
  if (targets_.empty()) {
    start_prepare();
  } else {
    decide_if_complete();
  }
}

void Membership::left(RankId rank) {
  if (!may_be_in_force(rank)) return;
  lost_[rank] = Loss::Ended;
  if (phase_ == Phase::Waiting) {
    start_prepare();  // may now be known to be hopeless
  } else if (phase_ == Phase::Preparing && targets_.erase(rank) > 0) {
    reports_.erase(rank);
    if (targets_.empty()) {
      start_prepare();
    } else {
      decide_if_complete();
    }
  }
}

void Membership::seen_again(RankId rank) {
  const auto known = lost_.find(rank);
  if (known == lost_.end() || known->second == Loss::Ended) return;
  lost_.erase(known);
  if (phase_ == Phase::Waiting) {
    start_prepare();
  } else if (phase_ == Phase::Preparing && may_be_in_force(rank)) {
    targets_.insert(rank);
    send(rank, Prepare{preparing_});
  }
}

void Membership::report(RankId from, const PrepareReport& report) {
  if (phase_ != Phase::Preparing || report.prepare != preparing_ || !targets_.contains(from))
    return;
  reports_[from] = report;
  decide_if_complete();
}

void Membership::entered(RankId rank, EpochNumber epoch) {
  if (phase_ != Phase::Idle || !planned_ || epoch != planned_->number || !planned_->has(rank))
    return;
  entered_planned_.insert(rank);
  if (entered_planned_.size() < planned_->members.size()) return;
  entered_planned_.clear();
  base_ = *std::exchange(planned_, std::nullopt);
  effects_.push_back(MembershipRecord(EpochSettled{epoch}));
  effects_.push_back(Settled{epoch});
}

void Membership::reform(Reform options) {
  if (phase_ != Phase::Idle && phase_ != Phase::Preparing) return;
  const bool is_void = is_held_void_ || options.is_held_void;
  if (phase_ == Phase::Idle) start_prepare();
  if (phase_ == Phase::Preparing) is_held_void_ = is_void;
}

void Membership::skip(Step step, MicroBatch m) {
  CHECK(m.value() < micro_batches_, m);
  skips_.insert({step, m});
  CHECK(skips_.size() <= kMaxSkipped);
}

void Membership::hold_back(bool is_held_back) {
  if (!std::exchange(is_held_back_, is_held_back) || is_held_back) return;
  decide_if_complete();
}

void Membership::repeat(RankId rank) {
  if (phase_ == Phase::Preparing && targets_.contains(rank) && !reports_.contains(rank)) {
    send(rank, Prepare{preparing_});
    return;
  }
  if (phase_ != Phase::Idle) return;
  // Both are taken only by a rank that still waits for them.
  if (base_.has(rank) && base_.kind == EpochKind::Emergency) {
    send(rank, Prepare{base_.number});
    send(rank, Activate{base_});
  }
  if (planned_ && (base_.has(rank) || planned_->has(rank))) send(rank, Announce{*planned_});
}

// --- Planned changes ---

bool Membership::announce(Plan plan) {
  CHECK(plan.owner.size() == micro_batches_ && !plan.members.empty());
  if (!can_announce()) return false;
  planned_ = Epoch{.number = take_number(),
                   .kind = EpochKind::Planned,
                   .members = std::move(plan.members),
                   .owner = std::move(plan.owner),
                   .is_last = plan.is_last,
                   .skipped = base_.skipped,
                   .target = {},
                   .lost_owner = {}};
  entered_planned_.clear();
  effects_.push_back(MembershipRecord(EpochAnnounced{*planned_}));
  for (const Member& member : base_.members) send(member.rank, Announce{*planned_});
  return true;
}

// --- The Prepare ---

void Membership::start_prepare() {  // rule 10
  std::set<RankId> targets = open_members();
  for (const auto& [rank, loss] : lost_) targets.erase(rank);
  if (targets.empty()) {
    wait_or_roll_back();
    return;
  }
  clear_prepare();
  phase_ = Phase::Preparing;
  preparing_ = take_number();
  targets_ = std::move(targets);
  effects_.push_back(MembershipRecord(PrepareStarted{preparing_}));
  for (const RankId target : targets_) send(target, Prepare{preparing_});
}

// Rule 13: ranks of an epoch that may be in force may still commit, so nothing is issued before one
// of each is heard, or all of one are known to have ended.
void Membership::wait_or_roll_back() {
  clear_prepare();
  phase_ = Phase::Waiting;
  for (const Epoch* open : open_epochs()) {
    if (!has_ended(*open)) continue;
    phase_ = Phase::Stopped;
    effects_.push_back(RollBack{open->number});
    return;
  }
}

void Membership::decide_if_complete() {
  if (phase_ == Phase::Preparing && reports_.size() == targets_.size() && !is_held_back_) decide();
}

void Membership::decide() {
  for (const Epoch* open : open_epochs()) {  // rule 13
    const bool has_promised =
        std::any_of(targets_.begin(), targets_.end(), [&](RankId r) { return open->has(r); });
    if (!has_promised) {
      wait_or_roll_back();
      return;
    }
  }
  Turn target;  // rule 14
  for (const auto& [rank, report] : reports_) target = std::max(target, report.committed);
  std::vector<Member> survivors;  // rule 15
  for (const Member& member : basis().members) {
    const auto found = reports_.find(member.rank);
    if (found != reports_.end() && is_at(found->second, target)) survivors.push_back(member);
  }
  CHECK(!survivors.empty(), "whoever has committed most is a member of the basis");
  // Rule 16. The epoch of the votes need not be the basis: a decision that some of its members
  // never got may have committed the turn already, at members that are lost since.
  const EpochNumber voted_in = reports_.at(survivors.front().rank).epoch;
  const bool all_voted = std::all_of(survivors.begin(), survivors.end(), [&](const Member& member) {
    const PrepareReport& report = reports_.at(member.rank);
    return report.committed == target && report.has_voted && report.epoch == voted_in;
  });
  if (all_voted) target = target.next();

  Epoch decision = make_epoch(survivors, target);
  std::vector<RankId> left_out;
  for (const RankId rank : targets_)
    if (!decision.has(rank)) left_out.push_back(rank);
  const auto given = std::count_if(decision.lost_owner.begin(), decision.lost_owner.end(),
                                   [](MemberIndex m) { return m != kNoMember; });
  const uint32_t dropped = dropped_by(decision);
  base_ = std::move(decision);
  planned_.reset();
  entered_planned_.clear();
  clear_prepare();
  phase_ = Phase::Idle;
  effects_.push_back(MembershipRecord(EpochDecided{base_}));
  send_decision(left_out);
  effects_.push_back(Decided{base_, left_out, static_cast<uint32_t>(given), dropped});
  std::erase_if(lost_, [this](const auto& entry) { return !base_.has(entry.first); });
}

// The highest epoch in force, by the journal or by a report.
const Epoch& Membership::basis() const {
  if (!planned_) return base_;
  const bool is_entered = std::any_of(reports_.begin(), reports_.end(), [this](const auto& entry) {
    return entry.second.epoch == planned_->number;
  });
  return is_entered ? *planned_ : base_;
}

// Has committed `target` turns, or is one short and holds the sums of the last: a rank votes only
// with every sum at hand, and its vote was part of that commit if it is in the epoch of that
// commit.
bool Membership::is_at(const PrepareReport& report, Turn target) const {
  if (report.committed == target) return true;
  return report.committed.next() == target && report.has_voted;
}

Epoch Membership::make_epoch(const std::vector<Member>& survivors, Turn target) const {  // rule 17
  const std::vector<Skipped> skipped = skipped_at(survivors, target);
  std::vector<bool> is_held(micro_batches_);  // or skipped: nobody is to compute it
  std::vector<uint32_t> held_counts(survivors.size());
  for (size_t i = 0; i < survivors.size(); ++i) {
    const PrepareReport& report = reports_.at(survivors[i].rank);
    for (const Skipped& each : skipped)
      if (report.committed == target && each.step == report.step)
        is_held[each.micro_batch.value()] = true;
    if (report.committed != target || is_held_void_) continue;
    for (const MicroBatch m : report.held) {
      CHECK(m.value() < micro_batches_ && !is_held[m.value()], "held twice: ", m);
      is_held[m.value()] = true;
    }
    held_counts[i] = static_cast<uint32_t>(report.held.size());
  }
  return Epoch{.number = preparing_,
               .kind = EpochKind::Emergency,
               .members = survivors,
               .owner = divider_.regular(survivors, micro_batches_),
               .is_last = basis().is_last || is_stop_wanted_,
               .skipped = skipped,
               .target = target,
               .lost_owner = divider_.lost(survivors, is_held, held_counts)};
}

// Of the step that runs at `target`, and of later ones. What a survivor holds will be in the sum,
// so it is not skipped: whoever holds it has not ended by it yet.
std::vector<Skipped> Membership::skipped_at(const std::vector<Member>& survivors,
                                            Turn target) const {
  Step step;
  std::set<Skipped> held;
  for (const Member& member : survivors) {
    const PrepareReport& report = reports_.at(member.rank);
    step = std::max(step, report.step);
    const bool is_kept = report.committed == target && !is_held_void_;
    if (!is_kept) continue;
    for (const MicroBatch m : report.held) held.insert({report.step, m});
  }
  std::vector<Skipped> skipped;
  for (const Skipped& each : skips_)
    if (each.step >= step && !held.contains(each)) skipped.push_back(each);
  return skipped;
}

// What was held of the step that runs at the decision's target, by whoever has reported it, and is
// not kept.
uint32_t Membership::dropped_by(const Epoch& decision) const {
  size_t dropped = 0;
  for (const auto& [rank, report] : reports_)
    if (report.committed == decision.target && (is_held_void_ || !decision.has(rank)))
      dropped += report.held.size();
  return static_cast<uint32_t>(dropped);
}

void Membership::send_decision(const std::vector<RankId>& left_out) {
  for (const Member& member : base_.members) send(member.rank, Activate{base_});
  for (const RankId rank : left_out) send(rank, Out{base_.number, base_.target});
}

// --- Small parts ---

EpochNumber Membership::take_number() {  // rule 1
  return std::exchange(next_number_, next_number_.next());
}

std::vector<const Epoch*> Membership::open_epochs() const {
  std::vector<const Epoch*> open = {&base_};
  if (planned_) open.push_back(&*planned_);
  return open;
}

std::set<RankId> Membership::open_members() const {
  std::set<RankId> members;
  for (const Epoch* open : open_epochs())
    for (const Member& member : open->members) members.insert(member.rank);
  return members;
}

bool Membership::has_ended(const Epoch& epoch) const {
  return std::all_of(epoch.members.begin(), epoch.members.end(), [this](const Member& member) {
    const auto known = lost_.find(member.rank);
    return known != lost_.end() && known->second == Loss::Ended;
  });
}

bool Membership::may_be_in_force(RankId rank) const {
  return base_.has(rank) || (planned_ && planned_->has(rank));
}

std::vector<RankId> Membership::unanswered() const {
  std::vector<RankId> ranks;
  for (const RankId target : targets_)
    if (!reports_.contains(target)) ranks.push_back(target);
  return ranks;
}

void Membership::clear_prepare() {
  preparing_ = EpochNumber(0);
  is_held_void_ = false;
  targets_.clear();
  reports_.clear();
}

void Membership::send(RankId to, ControlMessage message) {
  effects_.push_back(SendControl{to, std::move(message)});
}

std::vector<MembershipEffect> Membership::take_effects() { return std::exchange(effects_, {}); }

void Membership::add_to(Digest& digest) const {
  digest.add(static_cast<uint8_t>(phase_)).add(next_number_.value());
  base_.add_to(digest);
  digest.add(planned_.has_value());
  if (planned_) planned_->add_to(digest);
  digest.add(preparing_.value()).add(is_held_void_).add(is_held_back_).add(is_stop_wanted_);
  for (const Skipped& each : skips_) digest.add(each.step.value()).add(each.micro_batch.value());
  const auto add_rank = [&](RankId r) { digest.add(r.slot.value()).add(r.incarnation.value()); };
  digest.add(entered_planned_.size());
  for (const RankId r : entered_planned_) add_rank(r);
  digest.add(lost_.size());
  for (const auto& [rank, loss] : lost_) {
    add_rank(rank);
    digest.add(static_cast<uint8_t>(loss));
  }
  digest.add(targets_.size());
  for (const RankId r : targets_) add_rank(r);
  for (const auto& [rank, report] : reports_) {
    add_rank(rank);
    digest.add(report.epoch.value()).add(report.committed.value()).add(report.has_voted);
    digest.add(report.held.size());
    for (const MicroBatch m : report.held) digest.add(m.value());
  }
}

}  // namespace paceline::control
