// The effects of RankCore, carried out (see session.h).
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <utility>

#include "base/check.h"
#include "core/model/micro_batch.h"
#include "live/worker/session.h"

namespace paceline::worker {

// Everything that follows from one event, frames that were kept included.
void Session::settle(Instant now) {
  carry_out_all(now);
  if (joiner_) has_moved_ = true;  // it may have room for sums again
  while (std::exchange(has_moved_, false))
    if (transport_) transport_->resume_paused();
  sweep_heals();
  if (transport_) transport_->flush();
  publish();
}

// A reduction may complete while an effect is carried out; the core hears of it after the batch.
void Session::carry_out_all(Instant now) {
  now_ = now;
  for (;;) {
    const std::vector<rank::Effect> effects = core_->take_effects();
    for (const rank::Effect& effect : effects)
      std::visit([this](const auto& each) { carry_out(each); }, effect);
    const std::vector<Reducer::Reduced> reduced = reducer_->take_reduced();
    for (const Reducer::Reduced& each : reduced)
      core_->sum_reduced(each.bucket, each.tag, each.is_flagged);
    if (effects.empty() && reduced.empty()) return;
  }
}

void Session::carry_out(const rank::StartReduction& effect) {
  if (is_clear_due_) {
    due_reductions_.push_back(effect.bucket);
  } else {
    reducer_->own_ready(effect.bucket, core_->held_tag());
  }
}

void Session::carry_out(const rank::SendVote& effect) {
  connect_to(effect.to);
  const Vote& vote = effect.vote;
  transport_->send(running_.members[effect.to].rank,
                   {.kind = FrameKind::Vote,
                    .epoch = vote.epoch,
                    .hop = vote.hop,
                    .turn = vote.turn,
                    .low = vote.carried_low,
                    .high = vote.carried_high},
                   {}, {});
}

void Session::send_barriers() {
  for (const rank::OutgoingBarrier& outgoing : barrier_.take_outgoing()) {
    connect_to(outgoing.to);
    transport_->send(running_.members[outgoing.to].rank,
                     {.kind = FrameKind::Barrier,
                      .epoch = running_.number,
                      .chunk = outgoing.message.level,
                      .hop = outgoing.message.hop,
                      .turn = core_->position().committed,
                      .tag = outgoing.message.is_refusal ? 1u : 0u},
                     {}, {});
  }
}

void Session::carry_out(const rank::SendReport& effect) { tell_agent(effect.report); }

void Session::carry_out(const rank::Quiesce&) {
  reducer_->stop();
  due_reductions_.clear();
  if (transport_) transport_->quiesce();
  barrier_.stop();
  lost_told_.clear();
  promised_since_ = now_;
  has_changed_ = true;
}

void Session::carry_out(const rank::CommitTurn& effect) {
  if (is_trial_wanted() && !has_share()) donor_->give_trial(std::nullopt);
  if (donor_) donor_->committing(effect.turn, effect.is_flagged, buckets_);
  for (Bucket& bucket : buckets_) bucket.commit(effect.is_flagged);
  barrier_.committed({.turn = effect.turn.next(), .is_open = effect.is_flagged});
  add_sample(effect);
  // Nothing holds the training thread back any more: how long it takes to wake up is its own time.
  if (!effect.is_flagged && clock_.phase() == RankPhase::Wait)
    clock_.enter(RankPhase::Outside, now_);
  begin_round();
  has_changed_ = has_moved_ = true;
}

void Session::carry_out(const rank::DropContributions&) {
  begun_in_turn_ = 0;
  if (current_) current_->is_void = true;
  if (is_accumulating_) {
    is_clear_due_ = true;
  } else {
    clear_contributions();
  }
}

void Session::carry_out(const rank::EnterEpoch&) {
  running_ = core_->epoch();
  const Epoch& epoch = running_;
  for (Bucket& bucket : buckets_) bucket.set_micro_batches(epoch.micro_batches());
  lost_told_.clear();
  if (donor_) donor_->entered(epoch);
  if (transport_ && epoch.kind == EpochKind::Emergency) {
    std::set<RankId> members;
    for (const Member& member : epoch.members) members.insert(member.rank);
    transport_->enter(epoch.number, members);
  }
  begin_round();
  const std::optional<MemberIndex> self = epoch.index_of(options_.self);
  if (self) connect_to_all(*self);
  if (self) {
    barrier_.enter({.turn = core_->position().committed,
                    .self = *self,
                    .members = static_cast<MemberIndex>(epoch.members.size())});
    send_barriers();
  }
  tell_agent(wire::Entered{epoch.number, core_->position().committed, core_->position().step});
  has_changed_ = has_moved_ = true;
}

void Session::carry_out(const rank::TagMismatch& effect) {
  std::fprintf(stderr, "paceline: bucket %u: the tag of the sum is %016llx, not %016llx\n",
               effect.bucket.value(), static_cast<unsigned long long>(effect.found),
               static_cast<unsigned long long>(effect.expected));
  tell_agent(wire::TagNotice{core_->position().committed});
}

// Connections stay: the last votes of this rank may still be on them.
void Session::carry_out(const rank::Leave&) {
  reducer_->stop();
  barrier_.stop();
  has_changed_ = has_moved_ = true;
}

void Session::begin_round() {
  const Epoch& epoch = core_->epoch();
  const std::optional<MemberIndex> self = epoch.index_of(options_.self);
  if (!self || core_->phase() != rank::Phase::Member) {
    reducer_->stop();
    return;
  }
  const rank::Position& position = core_->position();
  const size_t members = epoch.members.size();
  reducer_->begin({.epoch = epoch.number,
                   .turn = position.committed,
                   .members = static_cast<MemberIndex>(members),
                   .self = *self,
                   .next = epoch.members[(*self + 1u) % members].rank,
                   .previous = epoch.members[(*self + members - 1) % members].rank,
                   .expected_tag = core_->complete_tag(),
                   .transport = members > 1 ? transport_.get() : nullptr});
}

void Session::clear_contributions() {
  for (Bucket& bucket : buckets_) bucket.clear_own();
}

// To those that this rank sends chunks and votes to (core/rank/vote_exchange.h), while there is
// time: the first turn would wait for each.
void Session::connect_to_all(MemberIndex self) {
  const size_t members = running_.members.size();
  for (size_t distance = 1; distance < members; distance *= 2)
    connect_to(static_cast<MemberIndex>((self + distance) % members));
}

void Session::connect_to(MemberIndex index) {
  const Member& member = running_.members[index];
  transport_->connect(member.rank, member.endpoint, Channel::Step, now_);
}

// --- What others see of this rank ---

void Session::add_sample(const rank::CommitTurn& commit) {
  const StepClock::Totals totals = clock_.take(now_);
  const int64_t delay = run_queue_delay();
  ring_.add_sample({.turn = commit.turn,
                    .step = commit.step,
                    .epoch = running_.number,
                    .micro_batches = begun_in_turn_,
                    .begun = turn_begun_,
                    .committed = now_,
                    .compute = totals.compute,
                    .wait = totals.wait,
                    .longest_compute = totals.longest_compute,
                    .longest_outside = totals.longest_outside,
                    .run_queue_delay = Duration::nanoseconds(delay - run_queue_delay_at_begin_),
                    .is_flagged = commit.is_flagged});
  begun_in_turn_ = 0;
  turn_begun_ = now_;  // of the round that follows if this one was flagged
  run_queue_delay_at_begin_ = delay;
}

// Relaxed: each field stands for itself, and is looked at again soon.
void Session::publish() {
  const auto set = [](auto& field, auto value) {
    field.store(static_cast<typename std::decay_t<decltype(field)>::value_type>(value),
                std::memory_order_relaxed);
  };
  wire::RankNow& now = ring_.now();
  const bool is_preparing = core_ && core_->is_promised() && clock_.phase() == RankPhase::Wait;
  set(now.phase, is_preparing ? RankPhase::Prepare : clock_.phase());
  set(now.phase_since, (is_preparing ? promised_since_ : clock_.since()).in_nanoseconds());
  set(now.begun, begun_in_turn_);
  const bool computes = clock_.phase() == RankPhase::Compute || clock_.phase() == RankPhase::Trial;
  if (current_ && computes) {
    set(now.micro_batch, current_->micro_batch.value());
    set(now.micro_batch_seed, current_->seed);
  }
  set(now.refused_since, refused_since_.in_nanoseconds());
  if (!core_) return;
  set(now.committed, core_->position().committed.value());
  set(now.step, core_->position().step.value());
  set(now.round, core_->position().round);
  set(now.epoch, core_->epoch().number.value());
  set(now.promised, core_->promised().value());
  set(now.reducing, reducer_->running());
  set(now.has_voted, core_->has_voted());
}

void Session::watch_this_thread() {
  const auto id = static_cast<uint32_t>(::syscall(SYS_gettid));
  ring_.now().main_thread.store(id, std::memory_order_relaxed);
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/self/task/%u/schedstat", id);
  schedstat_ = os::Descriptor(::open(path.data(), O_RDONLY | O_CLOEXEC));
}

// Second field: nanoseconds for which the thread was ready to run and did not. 0 if the kernel does
// not count.
int64_t Session::run_queue_delay() const {
  std::array<char, 96> text{};
  if (!schedstat_.is_open() || ::pread(schedstat_.get(), text.data(), text.size() - 1, 0) <= 0)
    return 0;
  long long running = 0, waiting = 0;
  return std::sscanf(text.data(), "%lld %lld", &running, &waiting) == 2 ? waiting : 0;
}

}  // namespace paceline::worker
