#include "sim/world/simulated_rank.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/str.h"
#include "core/model/micro_batch.h"
#include "sim/world/world.h"

namespace paceline::sim {
namespace {

constexpr uint64_t kDigestInterval = 16;  // steps between comparisons of the state

}  // namespace

SimulatedRank::SimulatedRank(World& world, const DesiredRank& desired, HostId host,
                             int64_t process_id)
    : world_(world),
      id_(desired.rank),
      host_(host),
      process_id_(process_id),
      is_joiner_(desired.is_joiner),
      rng_(mix64(world.model().seed ^ (uint64_t{desired.rank.slot.value()} << 32) ^
                 desired.rank.incarnation.value())),
      core_({.self = desired.rank,
             .seed = world.model().seed,
             .buckets = world.model().buckets,
             .position = {},
             .is_joiner = desired.is_joiner}) {}

// --- Surroundings ---

void SimulatedRank::freeze() {
  is_frozen_ = true;
  frozen_at_ = world_.queue().now();
}

void SimulatedRank::thaw() {
  is_frozen_ = false;
  while (is_alive_ && !is_frozen_ && !frozen_actions_.empty()) {
    Action action = std::move(frozen_actions_.front());
    frozen_actions_.pop_front();
    action();
  }
}

void SimulatedRank::say_hello() {
  enqueue([this] {
    if (!is_joiner_) world_.safety().starts_at(id_, Turn(0));
    const Endpoint endpoint{.address = host_.value() + 1,
                            .port = static_cast<uint16_t>(1 + id_.slot.value())};
    world_.from_rank(*this, RankUp{id_, endpoint, process_id_, world_.model().state_bytes});
    if (!is_joiner_) begin_turn();
  });
}

void SimulatedRank::take_order(agent::RankOrder order) {
  enqueue([this, order = std::move(order)] {
    if (const Heal* heal = std::get_if<Heal>(&order)) {
      heal_ = *heal;
      world_.queue().after(world_.model().heal_time,
                           [this, attempt = heal->attempt] { receive_state(attempt); });
      return;
    }
    if (std::holds_alternative<Release>(order)) return;  // its agent sees the exit
    std::visit(
        [this](const auto& message) {
          if constexpr (std::is_constructible_v<ControlMessage, decltype(message)>)
            core_.control(message);
        },
        order);
    settle();
  });
}

void SimulatedRank::take_from_peer(RankId from, PeerMessage message) {
  enqueue([this, from, message] {
    if (inbox_.contains(from) || deliver(message) == rank::Relation::Newer)
      inbox_[from].push_back(message);
    settle();
  });
}

// --- Healing ---

void SimulatedRank::receive_state(uint32_t attempt) {
  enqueue([this, attempt] {
    if (!heal_ || heal_->attempt != attempt || core_.phase() != rank::Phase::Joining) return;
    for (const Donor& donor : heal_->donors) {
      SimulatedRank* giver = world_.find(donor.rank);
      if (giver == nullptr || !giver->is_alive() || giver->is_frozen()) continue;
      donor_ = donor.rank;
      state_error_ = giver->state_error_;
      if (is_hung_) {
        set_loop(Loop::InTrial);
        return;
      }
      core_.state_received(giver->core().position());
      world_.safety().starts_at(id_, core_.position().committed);
      world_.watch_donor(donor_, id_);
      world_.from_rank(*this, HealProgress{.rank = id_,
                                           .attempt = attempt,
                                           .what = HealProgress::What::Level,
                                           .donor = donor_,
                                           .detail = {}});
      join_if_level();
      return;
    }
    world_.from_rank(*this, HealProgress{.rank = id_,
                                         .attempt = attempt,
                                         .what = HealProgress::What::Failed,
                                         .donor = heal_->donors.front().rank,
                                         .detail = "no donor answers"});
  });
}

// One that it has turned away from says nothing to it any more: it may be a turn ahead of the new
// one.
void SimulatedRank::donor_committed(RankId donor, Turn committed, bool is_flagged) {
  enqueue([this, donor, committed, is_flagged] {
    if (donor != donor_) return;
    if (core_.phase() != rank::Phase::Joining || core_.position().committed != committed) return;
    core_.sums_applied(is_flagged);
    world_.safety().starts_at(id_, core_.position().committed);
    join_if_level();
  });
}

void SimulatedRank::donor_lost(RankId donor) {
  enqueue([this, donor] {
    if (donor != donor_ || !heal_ || core_.phase() != rank::Phase::Joining) return;
    donor_ = {};
    world_.from_rank(*this, HealProgress{.rank = id_,
                                         .attempt = std::exchange(heal_, std::nullopt)->attempt,
                                         .what = HealProgress::What::Failed,
                                         .donor = donor,
                                         .detail = str("the connection to ", donor, " is lost")});
  });
}

void SimulatedRank::join_if_level() {
  const SimulatedRank* donor = world_.find(donor_);
  if (donor == nullptr || !donor->is_alive() || core_.phase() != rank::Phase::Joining) return;
  if (donor->core().position().committed != core_.position().committed) return;
  core_.donor_entered(donor->core().epoch());
  settle();
}

// --- The program around the core ---

void SimulatedRank::begin_turn() {
  if (core_.position().step.value() >= world_.model().steps) {
    finish_loop();
    return;
  }
  step_begun_ = core_.position().step;
  turn_begun_ = world_.queue().now();
  turn_compute_ = longest_compute_ = Duration();
  turn_micro_batches_ = 0;
  if (core_.phase() == rank::Phase::Member && step_begun_.value() % kDigestInterval == 0)
    world_.from_rank(
        *this,
        RankDigest{.rank = id_, .step = step_begun_, .digest = step_begun_.value() + state_error_});
  core_.begin_step();
  set_loop(Loop::InFinish);
  settle();
}

void SimulatedRank::set_loop(Loop loop) {
  loop_ = loop;
  phase_since_ = world_.queue().now();
}

// Some turns are long, on all ranks or on one of them: the same ones whoever asks.
int64_t SimulatedRank::length_factor() const {
  const Model& model = world_.model();
  if (model.long_step_ppm == 0) return 1;
  Rng rng(mix64(model.seed ^ 0x6c6f'6e67ull) ^ step_begun_.value());
  if (!rng.chance_ppm(model.long_step_ppm)) return 1;
  const uint64_t victim = rng.below(2 * uint64_t{model.hosts} * model.ranks_per_host);
  const bool is_all = victim >= uint64_t{model.hosts} * model.ranks_per_host;
  return is_all || victim == id_.slot.value() ? model.long_step_factor : 1;
}

void SimulatedRank::finish_loop() {
  set_loop(Loop::Done);
  world_.from_rank(*this, RankDone{.rank = id_,
                                   .has_left = false,
                                   .committed = core_.position().committed,
                                   .state_digest = core_.position().step.value()});
}

Duration SimulatedRank::compute_time() {
  const int64_t base =
      world_.model().micro_batch.in_nanoseconds() * slowness_percent_ / 100 * length_factor();
  const int64_t jitter = base * world_.model().jitter_ppm / 1'000'000;
  return Duration::nanoseconds(base + rng_.between(0, std::max<int64_t>(jitter, 1)));
}

void SimulatedRank::compute_or_finish() {
  if (loop_ != Loop::InFinish) return;
  const std::optional<MicroBatch> m = core_.begin_micro_batch();
  if (!m) return;
  set_loop(Loop::Computing);
  micro_batch_ = *m;
  ++turn_micro_batches_;
  if (is_hung_) return;
  const Duration time = compute_time();
  if (world_.is_poison({step_begun_, *m})) {
    world_.queue().after(time / 2, [this] { enqueue([this] { world_.end_by_itself(id_); }); });
    return;
  }
  turn_compute_ += time;
  longest_compute_ = std::max(longest_compute_, time);
  world_.queue().after(time, [this, m] { enqueue([this, m] { micro_batch_done(*m); }); });
}

void SimulatedRank::micro_batch_done(MicroBatch m) {
  if (is_skipping_) {
    if (core_.is_held(m)) core_.accumulated(BucketId(0));
    refused_since_ = world_.queue().now();
    return;
  }
  set_loop(Loop::InFinish);
  if (core_.is_held(m))
    for (uint32_t b = 0; b < world_.model().buckets; ++b) core_.accumulated(BucketId(b));
  settle();
}

// Carries out what the core asks for, takes what peers have sent, and goes on until nothing moves.
void SimulatedRank::settle() {
  for (bool is_moving = true; is_moving && is_alive_;) {
    is_moving = false;
    for (const rank::Effect& effect : core_.take_effects()) {
      is_moving = true;
      std::visit([this](const auto& e) { carry_out(e); }, effect);
    }
    is_moving |= deliver_inbox();
  }
  go_on();
}

void SimulatedRank::go_on() {
  if (loop_ != Loop::InFinish) return;
  if (core_.epoch().is_last && !core_.is_open() && core_.position().step == step_begun_) {
    finish_loop();  // the step is given up
    return;
  }
  if (core_.position().step != step_begun_ || core_.phase() == rank::Phase::Left) {
    if (core_.phase() == rank::Phase::Left) return;
    set_loop(Loop::Updating);
    world_.queue().after(world_.model().update, [this] {
      enqueue([this] {
        if (core_.epoch().is_last) {
          finish_loop();
        } else {
          begin_turn();
        }
      });
    });
    return;
  }
  compute_or_finish();
}

// Takes one message that concerns the running turn, if there is one; what follows it may then
// relate differently. Old ones are dropped on the way.
bool SimulatedRank::deliver_inbox() {
  for (auto sender = inbox_.begin(); sender != inbox_.end();) {
    std::deque<PeerMessage>& messages = sender->second;
    while (!messages.empty()) {
      const rank::Relation relation = deliver(messages.front());
      if (relation == rank::Relation::Newer) break;
      messages.pop_front();
      if (relation == rank::Relation::Old) continue;
      if (messages.empty()) inbox_.erase(sender);
      return true;
    }
    sender = messages.empty() ? inbox_.erase(sender) : std::next(sender);
  }
  return false;
}

// Takes the message if it is of the running turn.
rank::Relation SimulatedRank::deliver(const PeerMessage& message) {
  const rank::Relation relation =
      std::visit([this](const auto& m) { return core_.relation(m.epoch, m.turn); }, message);
  if (relation != rank::Relation::Current) return relation;
  if (const Vote* vote = std::get_if<Vote>(&message)) {
    core_.vote_received(*vote);
  } else {
    const Sum& sum = std::get<Sum>(message);
    sums_[sum.bucket] = sum.tag;
    core_.sum_reduced(sum.bucket, sum.tag, false);
  }
  return relation;
}

// --- Effects ---

void SimulatedRank::carry_out(const rank::StartReduction& effect) {
  world_.contribute(running_, core_.position().committed, effect.bucket, core_.held_tag());
}

void SimulatedRank::carry_out(const rank::SendVote& effect) {
  world_.to_peer(id_, running_.members.at(effect.to).rank, effect.vote);
}

void SimulatedRank::carry_out(const rank::SendReport& effect) {
  world_.from_rank(*this, FromRank{id_, effect.report});
}

void SimulatedRank::carry_out(const rank::Quiesce&) {}  // what is under way is refused on arrival

void SimulatedRank::carry_out(const rank::CommitTurn& effect) {
  const uint64_t complete =
      world_.complete_tag_of(effect.step) - running_.skipped_tag(world_.model().seed, effect.step);
  bool holds_all = sums_.size() == world_.model().buckets;
  for (const auto& [bucket, tag] : sums_) holds_all &= tag == complete;
  world_.safety().committed(id_, effect.turn, running_.number, holds_all);
  sums_.clear();
  const Instant now = world_.queue().now();
  RankSample sample;
  sample.turn = effect.turn;
  sample.step = effect.step;
  sample.epoch = running_.number;
  sample.micro_batches = turn_micro_batches_;
  sample.begun = turn_begun_;
  sample.committed = now;
  sample.compute = turn_compute_;
  sample.longest_compute = longest_compute_;
  sample.longest_outside = world_.model().update;
  sample.wait = (now - turn_begun_) - turn_compute_;
  samples_.push_back(sample);
  world_.donor_committed(id_, effect.turn, effect.is_flagged);
}

void SimulatedRank::carry_out(const rank::DropContributions&) {}

void SimulatedRank::carry_out(const rank::EnterEpoch& effect) {
  running_ = core_.epoch();
  sums_.clear();
  const rank::Position& position = core_.position();
  world_.from_rank(*this, RankEntered{.rank = id_,
                                      .epoch = effect.number,
                                      .committed = position.committed,
                                      .step = position.step});
  world_.connect_to_peers(*this);
  if (loop_ == Loop::Starting) {
    world_.queue().after(Duration(), [this] {
      enqueue([this] {
        if (loop_ == Loop::Starting) begin_turn();
      });
    });
  }
}

void SimulatedRank::carry_out(const rank::TagMismatch&) {
  world_.from_rank(*this, TagTrouble{id_, core_.position().committed});
}

void SimulatedRank::carry_out(const rank::Leave&) {
  world_.from_rank(*this, RankDone{.rank = id_,
                                   .has_left = true,
                                   .committed = core_.position().committed,
                                   .state_digest = 0});
}

RankView SimulatedRank::view() const {
  RankView view;
  view.rank = id_;
  view.epoch = core_.epoch().number;
  view.committed = core_.position().committed;
  view.step = core_.position().step;
  view.phase = loop_ == Loop::Starting    ? RankPhase::Starting
               : loop_ == Loop::InTrial   ? RankPhase::Trial
               : loop_ == Loop::Computing ? RankPhase::Compute
               : loop_ == Loop::InFinish  ? RankPhase::Wait
               : loop_ == Loop::Done      ? RankPhase::Done
                                          : RankPhase::Outside;
  view.phase_since = phase_since_;
  view.begun = static_cast<uint32_t>(core_.held_count());
  view.micro_batch = micro_batch_;
  view.micro_batch_seed = micro_batch_seed(world_.model().seed, step_begun_, micro_batch_);
  view.last_beat = is_frozen_ ? frozen_at_ : world_.queue().now();
  view.is_stopped = is_frozen_;
  view.refused_since = refused_since_;
  return view;
}

}  // namespace paceline::sim
