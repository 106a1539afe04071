#include "live/worker/session.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "core/model/micro_batch.h"

namespace paceline::worker {

Result<std::unique_ptr<Session>> Session::open(SessionOptions options) {
  TRY_ASSIGN(Poller poller, Poller::make());
  if (!options.agent_socket.is_open())
    return std::unique_ptr<Session>(
        new Session(std::move(options), std::move(poller), RingWriter::make_private()));
  TRY_ASSIGN(RingWriter ring, RingWriter::map(std::move(options.ring)));
  return std::unique_ptr<Session>(
      new Session(std::move(options), std::move(poller), std::move(ring)));
}

Session::Session(SessionOptions options, Poller poller, RingWriter ring)
    : options_(std::move(options)), poller_(std::move(poller)), ring_(std::move(ring)) {
  if (options_.agent_socket.is_open()) agent_.emplace(poller_, std::move(options_.agent_socket));
}

Status Session::start(std::vector<Bucket> buckets, uint64_t state_bytes,
                      const rank::Position& initial, Instant now) {
  CHECK(!core_ && !buckets.empty());
  now_ = now;
  if (agent_) {
    TRY_ASSIGN(transport_,
               Transport::listen(
                   {.self = options_.self, .token = options_.token, .address = options_.address},
                   poller_, *this));
  }
  buckets_ = std::move(buckets);
  reducer_.emplace(buckets_);
  core_.emplace(rank::RankCore::Config{.self = options_.self,
                                       .seed = options_.seed,
                                       .buckets = static_cast<uint32_t>(buckets_.size()),
                                       .position = initial,
                                       .is_joiner = options_.is_joiner});
  if (!agent_) {
    start_alone();
    return {};
  }
  digest_interval_ = digest_interval(state_bytes);
  donor_.emplace(*transport_);
  if (options_.is_joiner)
    joiner_.emplace(*transport_, Joiner::Options{.state_bytes = state_bytes + own_state().size(),
                                                 .is_tried = options_.reduce == ReduceMode::Exact});
  uint64_t gradient_bytes = 0;
  for (const Bucket& bucket : buckets_) gradient_bytes += bucket.gradient_bytes();
  tell_agent(wire::Hello{transport_->endpoint(), static_cast<uint32_t>(buckets_.size()),
                         gradient_bytes, state_bytes});
  return {};
}

// The decision that a controller would make for a job of one rank.
void Session::start_alone() {
  const std::vector<MemberIndex> mine(std::max(options_.micro_batches, 1u), 0);
  core_->control(Prepare{EpochNumber(1)});
  core_->control(Activate{Epoch{.number = EpochNumber(1),
                                .kind = EpochKind::Emergency,
                                .members = {Member{options_.self, HostId(0), {}}},
                                .owner = mine,
                                .is_last = false,
                                .target = core_->position().committed,
                                .lost_owner = mine}});
  settle(now_);
}

// --- The training thread ---

void Session::begin_step(Instant now) {
  if (!core_->is_open()) {
    turn_begun_ = now;
    run_queue_delay_at_begin_ = run_queue_delay();
  }
  // A joiner opens no turn: its donors compute it.
  if (core_->phase() != rank::Phase::Joining) {
    now_ = now;
    barrier_.go_on();
    send_barriers();
    core_->begin_step();
  }
  settle(now);
}

std::optional<MicroBatch> Session::begin_micro_batch(Instant now) {
  CHECK(!current_);
  refused_since_ = Instant();
  if (core_->phase() == rank::Phase::Joining) return begin_trial(now);
  const std::optional<MicroBatch> m = core_->begin_micro_batch();
  if (!m) return std::nullopt;
  current_ = Current{.micro_batch = *m,
                     .seed = micro_batch_seed(options_.seed, core_->position().step, *m),
                     .is_void = false,
                     .is_done = std::vector<bool>(buckets_.size()),
                     .done_count = 0};
  if (is_trial_wanted())
    current_->trial = Trial{core_->position().committed, *m, 0, options_.processor};
  ++begun_in_turn_;
  enter_phase(RankPhase::Compute, now);
  return m;
}

Session::Use Session::begin_accumulate() {
  CHECK(current_ && !is_accumulating_);
  is_accumulating_ = !current_->is_void;
  return {.is_added = is_accumulating_, .is_digested = current_->trial.has_value()};
}

void Session::end_accumulate(BucketId bucket, uint64_t digest, Instant now) {
  Current& current = *current_;
  CHECK(!current.is_done[bucket.value()], bucket);
  current.is_done[bucket.value()] = true;
  ++current.done_count;
  current.digest += digest;
  const bool is_void = current.is_void;
  if (current.done_count == buckets_.size()) {
    if (current.trial) conclude_trial(current);
    current_.reset();
    clock_.enter(RankPhase::Outside, now);
  }
  is_accumulating_ = false;
  refused_since_ = Instant();
  now_ = now;
  if (std::exchange(is_clear_due_, false)) clear_contributions();
  for (const BucketId due : std::exchange(due_reductions_, {}))
    reducer_->own_ready(due, core_->held_tag());
  if (!is_void) core_->accumulated(bucket);
  settle(now);
}

void Session::note_refusal(Instant now) {
  if (refused_since_ == Instant()) refused_since_ = now;
  publish();
}

void Session::arrive_at_barrier(Instant now) {
  CHECK(!core_->is_open());
  now_ = now;
  barrier_.arrive();
  send_barriers();
  settle(now);
}

std::optional<SlotId> Session::barrier_refused_by() const {
  const std::optional<MemberIndex> member = barrier_.refused_by();
  if (!member) return std::nullopt;
  return running_.members[*member].rank.slot;
}

void Session::enter_phase(RankPhase phase, Instant now) {
  refused_since_ = Instant();
  clock_.enter(phase, now);
  publish();
}

void Session::add_metric(std::string_view name, double value) {
  ring_.add_metric(core_ ? core_->position().step : Step(), name, value);
}

void Session::send_done(uint64_t state_digest) {
  barrier_.go_on();
  send_barriers();
  if (transport_) transport_->flush();
  tell_agent(
      wire::Done{core_->phase() == rank::Phase::Left, core_->position().committed, state_digest});
}

bool Session::is_lead() const {
  if (core_->phase() != rank::Phase::Member) return false;
  const Epoch& epoch = core_->epoch();
  const Member* lead = nullptr;
  for (const MemberIndex index : epoch.owner) {
    const Member& member = epoch.members[index];
    if (lead == nullptr || member.rank < lead->rank) lead = &member;
  }
  return lead != nullptr && lead->rank == options_.self;
}

// Members compare theirs at every interval, a donor gives its to a joiner, and a joiner must know
// its own when the donor's comes.
bool Session::wants_digest() const {
  if (!core_ || core_->is_open()) return false;
  const Turn committed = core_->position().committed;
  if (digested_ && digested_->turn == committed) return false;
  if (core_->phase() == rank::Phase::Joining)
    return is_loaded_ && !joiner_->has_snapshot() && !joiner_->is_checked();
  return is_compared_here() || (donor_ && donor_->wants_digest(committed));
}

bool Session::is_compared_here() const {
  const Step step = core_->position().step;
  return digest_interval_ != 0 && core_->phase() == rank::Phase::Member &&
         core_->epoch().number != EpochNumber(0) && step > Step(0) &&
         step.value() % digest_interval_ == 0;
}

void Session::give_digest(uint64_t digest) {
  const Turn committed = core_->position().committed;
  digested_ = {committed, digest};
  if (is_compared_here()) tell_agent(wire::DigestNotice{core_->position().step, digest});
  if (!donor_) return;
  donor_->give_digest(committed, digest);
  transport_->flush();
}

std::vector<std::byte> Session::own_state() const {
  std::vector<std::byte> state;
  for (const Bucket& bucket : buckets_) {
    const size_t begin = state.size();
    state.resize(begin + bucket.scales_bytes());
    bucket.save_scales(std::span(state).subspan(begin));
  }
  return state;
}

// --- The progress thread ---

Instant Session::next_tick() const {
  return transport_ ? std::min(next_beat_, transport_->next_tick()) : next_beat_;
}

void Session::tick(Instant now) {
  if (now >= next_beat_) {
    next_beat_ = now + kBeatInterval;
    ring_.now().last_beat.store(now.in_nanoseconds(), std::memory_order_relaxed);
  }
  if (transport_) transport_->tick(core_->epoch().number, now);
}

void Session::handle(std::span<const Poller::Event> events, Instant now) {
  now_ = now;
  for (const Poller::Event& event : events) {
    if (transport_ && transport_->handle(event, now)) continue;
    if (!agent_ || event.key != agent_->key()) continue;
    agent_->flush();
    for (const wire::AgentRecord& record : agent_->receive()) take(record);
    if (agent_->is_gone()) has_changed_ = true;
  }
  if (core_) settle(now);
}

void Session::take(const wire::AgentRecord& record) {
  std::visit(
      [this](const auto& body) {
        using Body = std::decay_t<decltype(body)>;
        if constexpr (std::is_same_v<Body, wire::ReleaseOrder>) {
          is_released_ = has_changed_ = true;
        } else if constexpr (std::is_same_v<Body, wire::HealOrder>) {
          if (joiner_ && core_->phase() == rank::Phase::Joining) joiner_->order(body, now_);
        } else if constexpr (std::is_constructible_v<ControlMessage, Body>) {
          const ControlMessage message(body);
          if (!core_ || !is_acceptable(message)) return;
          core_->control(message);
          settle(now_);
        }
      },
      record);
}

// What the core takes for granted of a decision. A record that is not so is no decision for this
// rank: ignoring it is safe, and the controller repeats what matters.
bool Session::is_acceptable(const ControlMessage& message) const {
  const Epoch* epoch = nullptr;
  if (const auto* activate = std::get_if<Activate>(&message)) {
    epoch = &activate->epoch;
    if (epoch->kind != EpochKind::Emergency || !epoch->has(options_.self)) return false;
    if (epoch->lost_owner.size() != epoch->owner.size()) return false;
  } else if (const auto* announce = std::get_if<Announce>(&message)) {
    epoch = &announce->epoch;
  }
  if (epoch == nullptr) return true;
  const uint32_t known = core_->epoch().micro_batches();
  return epoch->micro_batches() > 0 && (known == 0 || epoch->micro_batches() == known);
}

void Session::tell_agent(const wire::RankRecord& record) {
  if (!agent_) return;
  agent_->send(record);
  if (agent_->is_gone()) has_changed_ = true;
}

// --- Peers ---

FrameVerdict Session::take(RankId sender, const FrameHeader& header,
                           std::span<const std::byte> payload) {
  if (header.kind == FrameKind::Beat) return FrameVerdict::Taken;
  if (is_heal(header.kind)) return take_heal(sender, header, payload);
  switch (core_->relation(header.epoch, header.turn)) {
    case rank::Relation::Old:
      return FrameVerdict::Taken;  // and so dropped
    case rank::Relation::Newer:
      return FrameVerdict::Keep;
    case rank::Relation::Current:
      break;
  }
  if (header.kind == FrameKind::Barrier) return take_barrier(sender, header);
  const FrameVerdict verdict = header.kind == FrameKind::Vote
                                   ? take_vote(sender, header)
                                   : reducer_->take_chunk(sender, header, payload);
  carry_out_all(now_);
  return verdict;
}

FrameVerdict Session::take_vote(RankId sender, const FrameHeader& header) {
  const Epoch& epoch = core_->epoch();
  const auto members = static_cast<uint32_t>(epoch.members.size());
  const std::optional<MemberIndex> from = epoch.index_of(sender);
  if (!from || header.hop >= rank::kMaxHops || header.low > header.high)
    return FrameVerdict::Refuse;
  if ((*from + (1u << header.hop)) % members != *epoch.index_of(options_.self))
    return FrameVerdict::Refuse;
  core_->vote_received(
      Vote{header.epoch, header.turn, static_cast<uint8_t>(header.hop), header.low, header.high});
  return FrameVerdict::Taken;
}

FrameVerdict Session::take_barrier(RankId sender, const FrameHeader& header) {
  const std::optional<MemberIndex> from = core_->epoch().index_of(sender);
  if (!from || header.hop >= rank::kMaxHops) return FrameVerdict::Refuse;
  const rank::BarrierMessage message{.level = header.chunk,
                                     .hop = static_cast<uint8_t>(header.hop),
                                     .is_refusal = header.tag != 0};
  if (!barrier_.receive(*from, message)) return FrameVerdict::Refuse;
  send_barriers();
  has_changed_ = true;
  return FrameVerdict::Taken;
}

bool Session::is_fellow(RankId peer) const {
  return core_->phase() == rank::Phase::Member && !core_->is_promised() && core_->epoch().has(peer);
}

void Session::connection_lost(RankId peer) {
  if (is_fellow(peer) && lost_told_.insert(peer).second)
    tell_agent(wire::PeerNotice{peer, PeerTrouble::What::ConnectionLost});
}

void Session::silent(RankId peer) {
  if (is_fellow(peer)) tell_agent(wire::PeerNotice{peer, PeerTrouble::What::Silent});
}

void Session::heard_again(RankId peer) {
  if (is_fellow(peer)) tell_agent(wire::PeerNotice{peer, PeerTrouble::What::HeardAgain});
}

}  // namespace paceline::worker
