#include "live/worker/joiner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/str.h"
#include "live/wire/memory_label.h"

namespace paceline::worker {
namespace {

constexpr size_t kMaxDonors = 2;
constexpr uint32_t kMaxPassed = 12;  // the turn named lies 2^n ahead at the n-th try
constexpr uint8_t kMaxTries = 4;     // of one chunk
constexpr uint8_t kGood = 0xff;

}  // namespace

void Joiner::order(const wire::HealOrder& order, Instant now) {
  for (const auto& [id, source] : sources_) over_.push_back(id);
  sweep();
  sources_.clear();
  attempt_ = order.attempt;
  for (const Donor& donor : order.donors) {
    if (sources_.size() == kMaxDonors) break;
    transport_.connect(donor.rank, donor.endpoint, Channel::Heal, now);
    sources_.emplace_back(donor.rank, Source{});
  }
  restart();
}

// Asks the donors that there are, and forgets what others have sent.
void Joiner::restart() {
  items_.clear();
  partial_ = {};
  waiting_bytes_ = 0;
  passed_ = 0;
  is_taken_ = is_checked_ = is_level_told_ = false;
  has_passed_trial_ = !options_.is_tried;
  stage_ = Stage::Asking;
  if (sources_.empty()) {
    fail("no donor was named");
  } else {
    ask(kWhereAreYou);
  }
}

void Joiner::ask(Turn turn) {
  ++request_;
  const Endpoint own = transport_.endpoint();
  const uint32_t port = own.port;
  std::vector<std::byte> payload(8);
  std::memcpy(payload.data(), &own.address, 4);
  std::memcpy(payload.data() + 4, &port, 4);
  for (size_t i = 0; i < sources_.size(); ++i) {
    sources_[i].second = Source{};
    transport_.send(sources_[i].first,
                    {.kind = FrameKind::HealAsk,
                     .hop = attempt_,
                     .turn = turn,
                     .low = EpochNumber(i == 0 ? 1 : 0),
                     .high = EpochNumber(request_),
                     .payload_bytes = 8},
                    payload, {});
  }
}

FrameVerdict Joiner::take(RankId donor, const FrameHeader& header,
                          std::span<const std::byte> payload) {
  const auto found = std::find_if(sources_.begin(), sources_.end(),
                                  [donor](const auto& each) { return each.first == donor; });
  if (stage_ == Stage::Idle || found == sources_.end() || header.high.value() != request_)
    return FrameVerdict::Taken;  // of a request that is no more
  bool is_good = true;
  switch (header.kind) {
    case FrameKind::HealTurn:
      found->second.stands_at = header.turn;
      choose_turn();
      break;
    case FrameKind::HealManifest:
      is_good = take_manifest(found->second, header, payload);
      break;
    case FrameKind::HealChunk:
      is_good = take_chunk(donor, header, payload);
      break;
    default:
      if (found == sources_.begin() && is_behind()) return FrameVerdict::Keep;
      is_good = found == sources_.begin() && take_following(header, payload);
  }
  if (!is_good) fail(str("a malformed frame from ", donor));
  return is_good ? FrameVerdict::Taken : FrameVerdict::Refuse;
}

// Where the donors stand is known, or one of them had passed the turn that was named.
void Joiner::choose_turn() {
  Turn highest;
  for (const auto& [id, source] : sources_) {
    if (stage_ == Stage::Asking && !source.stands_at) return;
    if (source.stands_at) highest = std::max(highest, *source.stands_at);
  }
  if (++passed_ > kMaxPassed) {
    fail("the donors commit faster than they can be asked");
    return;
  }
  stage_ = Stage::Receiving;
  snapshot_ = {};
  tries_.clear();
  put_off_.clear();
  good_chunks_ = 0;
  repaired_.clear();
  ask(Turn(highest.value() + (uint64_t{1} << (passed_ - 1))));
}

bool Joiner::take_manifest(Source& source, const FrameHeader& header,
                           std::span<const std::byte> payload) {
  if (stage_ != Stage::Receiving || payload.size() < kManifestHeadBytes + 8 ||
      payload.size() % 8 != 0)
    return false;
  uint64_t size_bytes = 0;
  std::memcpy(&size_bytes, payload.data(), 8);
  const size_t count = (payload.size() - kManifestHeadBytes) / 8;
  const size_t total = header.low.value();
  if (size_bytes != options_.state_bytes || total != heal_chunks(size_bytes)) {
    fail(str("its state has ", size_bytes, " bytes, this rank's ", options_.state_bytes));
    return true;
  }
  if (header.hop < 1 || header.hop > kMaxMicroBatches) return false;
  if (header.chunk != source.received || source.received + count > total) return false;
  source.position = {header.turn, Step(header.tag), 0};
  source.micro_batches = header.hop;
  std::memcpy(&source.digest, payload.data() + 8, 8);
  source.checksums.resize(total);
  std::memcpy(&source.checksums[source.received], payload.data() + kManifestHeadBytes, 8 * count);
  source.received += count;
  if (&source == &sources_.front().second && source.is_complete()) {
    snapshot_ = {.position = source.position,
                 .micro_batches = source.micro_batches,
                 .digest = source.digest,
                 .checksums = source.checksums,
                 .memory = {}};
    if (const Status status = snapshot_.allocate(wire::kReceivedLabel, size_bytes); !status) {
      fail(status.error().message);
      return true;
    }
    tries_.assign(total, 0);
  }
  check_complete();
  return true;
}

bool Joiner::take_chunk(RankId donor, const FrameHeader& header,
                        std::span<const std::byte> payload) {
  if (stage_ != Stage::Receiving || header.chunk >= tries_.size()) return false;
  const size_t size_bytes = heal_chunk_bytes(snapshot_.size_bytes, header.chunk);
  if (header.low.value() != size_bytes || payload.size() < size_bytes) return false;
  uint8_t& tries = tries_[header.chunk];
  if (tries == kGood) return true;
  const std::span<const std::byte> bytes = payload.first(size_bytes);
  if (checksum(bytes) == snapshot_.checksums[header.chunk]) {
    if (const Status status = snapshot_.memory->write(header.chunk * kHealChunkBytes, bytes);
        !status) {
      fail(status.error().message);
      return true;
    }
    if (tries > 0) {
      repaired_.push_back(header.chunk);
      repaired_by_ = donor;
    }
    tries = kGood;
    ++good_chunks_;
    check_complete();
    return true;
  }
  if (++tries > kMaxTries) {
    fail(str("chunk ", header.chunk, " is bad from every donor"));
    return true;
  }
  // Once more from the same; bad twice, from the other, which may not have its copy yet.
  auto& [other, source] = tries >= 2 ? sources_.back() : sources_.front();
  if (source.is_complete()) {
    ask_chunk(other, header.chunk);
  } else {
    put_off_.push_back(header.chunk);
  }
  return true;
}

// A donor gives chunks from the moment on at which it has said what they are.
void Joiner::ask_chunk(RankId donor, uint32_t chunk) {
  transport_.send(donor,
                  {.kind = FrameKind::HealChunkAsk, .chunk = chunk, .high = EpochNumber(request_)},
                  {}, {});
}

void Joiner::check_complete() {
  const Source& first = sources_.front().second;
  for (const auto& [id, source] : sources_)
    if (!source.is_complete()) return;
  if (sources_.back().second.position != first.position) {  // asked too late: again, further ahead
    for (auto& [id, source] : sources_) source.stands_at = source.position.committed;
    choose_turn();
    return;
  }
  for (const auto& [id, source] : sources_) {
    if (source.checksums == first.checksums && source.digest == first.digest) continue;
    fail(str(id, " and ", sources_.front().first, " differ in their state of turn ",
             first.position.committed));
    return;
  }
  for (const uint32_t chunk : std::exchange(put_off_, {})) ask_chunk(sources_.back().first, chunk);
  if (good_chunks_ < tries_.size()) return;
  stage_ = Stage::Ready;
  say_repaired();
  for (const auto& [id, source] : sources_)
    transport_.send(id, {.kind = FrameKind::HealGood, .high = EpochNumber(request_)}, {}, {});
}

// Only the first donor sends what it is not asked for, so the bad ones were its own.
void Joiner::say_repaired() {
  if (repaired_.empty()) return;
  notices_.push_back(
      {attempt_, HealProgress::What::ChunkRepaired, sources_.front().first,
       str(repaired_.size(), " of ", tries_.size(), " chunks, the first ", repaired_.front(),
           ", did not match their checksum; taken again from ", repaired_by_)});
}

bool Joiner::take_following(const FrameHeader& header, std::span<const std::byte> payload) {
  if (header.kind == FrameKind::HealSum) {
    partial_.sums.push_back(
        {header.bucket, header.chunk, header.tag, {payload.begin(), payload.end()}});
    waiting_bytes_ += payload.size();
    return true;
  }
  if (header.kind == FrameKind::HealCommit) {
    partial_.turn = header.turn;
    partial_.is_flagged = header.low.value() == 1;
    items_.emplace_back(std::exchange(partial_, {}));
    return true;
  }
  if (header.kind == FrameKind::HealDigest) {
    items_.emplace_back(StateDigest{header.turn, header.tag});
    return true;
  }
  if (header.kind == FrameKind::HealTrial) {
    if (header.hop == 0) {
      has_passed_trial_ = true;  // there is none
      return true;
    }
    const std::optional<Trial> trial = decode_trial(header, payload);
    if (trial) items_.emplace_back(*trial);
    return trial.has_value();
  }
  if (header.kind != FrameKind::HealEpoch || header.low.value() > payload.size()) return false;
  Result<Epoch> epoch = wire::decode_epoch(payload.first(header.low.value()));
  if (!epoch) return false;
  items_.emplace_back(std::move(*epoch));
  return true;
}

void Joiner::pop() {
  if (const auto* commit = std::get_if<Commit>(&items_.front()))
    for (const Sum& sum : commit->sums) waiting_bytes_ -= sum.payload.size();
  items_.pop_front();
}

void Joiner::snapshot_taken() {
  is_taken_ = true;
  snapshot_.memory.reset();
}

void Joiner::answer(const Trial& trial, uint64_t digest, const Processor& own) {
  const Item* item = front();
  if (item == nullptr || !std::holds_alternative<Trial>(*item) || std::get<Trial>(*item) != trial)
    return;
  pop();
  has_passed_trial_ = digest == trial.digest;
  if (has_passed_trial_) return;
  fail(str("turn ", trial.turn, ", micro-batch ", trial.micro_batch,
           ": the gradient differs between the donor's host (", trial.processor,
           ") and this rank's (", own,
           "); exact mode needs processors of one type, fixed threads, randomness from the "
           "micro-batch's seed alone"));
}

void Joiner::level() {
  if (stage_ != Stage::Ready || !is_checked_ || !has_passed_trial_ ||
      std::exchange(is_level_told_, true))
    return;
  notices_.push_back({attempt_, HealProgress::What::Level, sources_.front().first, {}});
}

// The second donor has done its part when the copy is complete; the first never has.
void Joiner::lost(RankId donor) {
  if (stage_ == Stage::Idle) return;
  const auto found = std::find_if(sources_.begin(), sources_.end(),
                                  [donor](const auto& each) { return each.first == donor; });
  if (found == sources_.end()) return;
  const bool has_done_its_part = found != sources_.begin() && stage_ == Stage::Ready;
  // Who was said to be level may be waited for in an epoch: the controller must hear that it is
  // not.
  if (sources_.size() == 1 || (is_level_told_ && !has_done_its_part)) {
    fail(str("the connection to ", donor, " is lost"));
    return;
  }
  sources_.erase(found);
  over_.push_back(donor);
  if (!has_done_its_part) restart();
}

void Joiner::fail(std::string detail) {
  if (stage_ == Stage::Idle) return;
  stage_ = Stage::Idle;
  const RankId blamed = sources_.empty() ? RankId{} : sources_.front().first;
  for (const auto& [id, source] : sources_) over_.push_back(id);
  notices_.push_back({attempt_, HealProgress::What::Failed, blamed, std::move(detail)});
}

void Joiner::close() {
  stage_ = Stage::Idle;
  for (const auto& [id, source] : sources_) over_.push_back(id);
  sweep();
}

void Joiner::sweep() {
  for (const RankId id : std::exchange(over_, {})) transport_.end_heal_both(id);
}

}  // namespace paceline::worker
