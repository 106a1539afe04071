#include "live/worker/donor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "live/wire/rank_record.h"

namespace paceline::worker {

FrameVerdict StateDonor::take(RankId id, const FrameHeader& header,
                              std::span<const std::byte> payload, Stand stand, Instant now) {
  if (header.kind == FrameKind::HealAsk) return take_ask(id, header, payload, stand, now);
  const auto known = joiners_.find(id);
  if (known == joiners_.end() || !known->second.snapshot || known->second.is_lost ||
      known->second.request != header.high.value())
    return FrameVerdict::Taken;  // of a request that is no more
  if (header.kind == FrameKind::HealGood) {
    known->second.snapshot.reset();
  } else if (header.chunk < known->second.snapshot->checksums.size()) {
    send_chunk(id, known->second, header.chunk);
  }
  return FrameVerdict::Taken;
}

FrameVerdict StateDonor::take_ask(RankId id, const FrameHeader& header,
                                  std::span<const std::byte> payload, Stand stand, Instant now) {
  if (payload.size() != 8) return FrameVerdict::Refuse;
  uint32_t address = 0, port = 0;
  std::memcpy(&address, payload.data(), 4);
  std::memcpy(&port, payload.data() + 4, 4);
  const auto known = joiners_.find(id);
  // The connection of an attempt that is over may be closed already on the other side.
  if (known != joiners_.end() && (known->second.is_lost || known->second.attempt != header.hop))
    transport_.end_heal(id);
  transport_.connect(id, {address, static_cast<uint16_t>(port)}, Channel::Heal, now);
  Joiner& joiner = joiners_[id];
  joiner = Joiner{};
  joiner.attempt = header.hop;
  joiner.request = header.high.value();
  joiner.wanted = kWhereAreYou;
  const bool has_passed =
      header.turn < stand.committed || (header.turn == stand.committed && stand.is_in_step);
  if (header.turn == kWhereAreYou && !memory_) {
    joiner.is_asking = true;
    return FrameVerdict::Taken;
  }
  if (header.turn == kWhereAreYou || has_passed) {
    say_turn(id, joiner, stand.committed);
    return FrameVerdict::Taken;
  }
  joiner.wanted = header.turn;
  joiner.is_first = header.low.value() == 1;
  return FrameVerdict::Taken;
}

void StateDonor::say_turn(RankId id, Joiner& joiner, Turn committed) {
  joiner.is_asking = false;
  transport_.send(
      id, {.kind = FrameKind::HealTurn, .turn = committed, .high = EpochNumber(joiner.request)}, {},
      {});
}

bool StateDonor::wants_memory() const {
  return !memory_ && !is_memory_reserved_ &&
         std::any_of(joiners_.begin(), joiners_.end(), [](const auto& each) {
           return each.second.is_asking && !each.second.is_lost;
         });
}

void StateDonor::give_memory(Snapshot memory, Turn committed) {
  is_memory_reserved_ = false;
  memory_ = std::move(memory);
  for (auto& [id, joiner] : joiners_)
    if (joiner.is_asking && !joiner.is_lost) say_turn(id, joiner, committed);
}

bool StateDonor::wants_copy(Turn committed) const {
  return std::any_of(joiners_.begin(), joiners_.end(), [committed](const auto& each) {
    const Joiner& joiner = each.second;
    return !joiner.copied_at && !joiner.is_lost && joiner.wanted <= committed;
  });
}

void StateDonor::begin_copy(Turn committed) {
  for (auto& [id, joiner] : joiners_) {
    if (joiner.copied_at || joiner.is_lost || joiner.wanted > committed) continue;
    joiner.copied_at = committed;
    joiner.is_copying = true;
  }
}

void StateDonor::give(std::shared_ptr<const Snapshot> snapshot) {
  for (auto& [id, joiner] : joiners_) {
    if (!joiner.is_copying || joiner.is_lost) continue;
    joiner.is_copying = false;
    joiner.snapshot = snapshot;
    send_manifest(id, joiner);
    if (!joiner.is_first) continue;
    for (uint32_t i = 0; i < snapshot->checksums.size(); ++i) send_chunk(id, joiner, i);
    for (const Waiting& frame : std::exchange(joiner.behind_copy, {}))
      transport_.send(id, frame.header, frame.payload, {});
  }
}

void StateDonor::refuse() {
  for (auto& [id, joiner] : joiners_)
    if (joiner.is_copying || joiner.is_asking) joiner.is_lost = true;
}

void StateDonor::send(RankId id, Joiner& joiner, const FrameHeader& header,
                      std::span<const std::byte> payload) {
  if (joiner.is_copying) {
    joiner.behind_copy.push_back({header, {payload.begin(), payload.end()}});
  } else {
    transport_.send(id, header, payload, {});
  }
}

bool StateDonor::wants_digest(Turn committed) const {
  return std::any_of(joiners_.begin(), joiners_.end(), [&](const auto& each) {
    return follows(each.second) && !each.second.has_digest && *each.second.copied_at < committed;
  });
}

void StateDonor::give_digest(Turn committed, uint64_t digest) {
  for (auto& [id, joiner] : joiners_) {
    if (!follows(joiner) || joiner.has_digest || *joiner.copied_at >= committed) continue;
    joiner.has_digest = true;
    send(id, joiner,
         {.kind = FrameKind::HealDigest,
          .turn = committed,
          .tag = digest,
          .high = EpochNumber(joiner.request)},
         {});
  }
}

bool StateDonor::wants_trial() const {
  return std::any_of(joiners_.begin(), joiners_.end(), [this](const auto& each) {
    return follows(each.second) && !each.second.has_trial;
  });
}

void StateDonor::give_trial(const std::optional<Trial>& trial) {
  FrameHeader header{.kind = FrameKind::HealTrial};
  std::vector<std::byte> payload;
  if (trial) {
    header = trial_header(*trial);
    payload = trial_payload(*trial);
  }
  for (auto& [id, joiner] : joiners_) {
    if (!follows(joiner) || joiner.has_trial) continue;
    joiner.has_trial = true;
    header.high = EpochNumber(joiner.request);
    send(id, joiner, header, payload);
  }
}

void StateDonor::send_manifest(RankId id, const Joiner& joiner) {
  const Snapshot& snapshot = *joiner.snapshot;
  const uint64_t size_bytes = snapshot.size_bytes;
  for (size_t first = 0; first < snapshot.checksums.size(); first += kChecksumsPerFrame) {
    const size_t count = std::min(kChecksumsPerFrame, snapshot.checksums.size() - first);
    std::vector<std::byte> payload(kManifestHeadBytes + 8 * count);
    std::memcpy(payload.data(), &size_bytes, 8);
    std::memcpy(payload.data() + 8, &snapshot.digest, 8);
    std::memcpy(payload.data() + kManifestHeadBytes, &snapshot.checksums[first], 8 * count);
    transport_.send(id,
                    {.kind = FrameKind::HealManifest,
                     .chunk = static_cast<uint32_t>(first),
                     .hop = snapshot.micro_batches,
                     .turn = snapshot.position.committed,
                     .tag = snapshot.position.step.value(),
                     .low = EpochNumber(static_cast<uint32_t>(snapshot.checksums.size())),
                     .high = EpochNumber(joiner.request),
                     .payload_bytes = static_cast<uint32_t>(payload.size())},
                    payload, {});
  }
}

// The frame keeps the snapshot whose bytes it carries.
void StateDonor::send_chunk(RankId id, const Joiner& joiner, uint32_t index) {
  const Snapshot& snapshot = *joiner.snapshot;
  const std::span<const std::byte> bytes = snapshot.bytes().subspan(
      index * kHealChunkBytes, heal_chunk_bytes(snapshot.size_bytes, index));
  std::vector<std::byte> copy;  // only of a last chunk that must be filled up
  if (bytes.size() % 4 != 0) {
    copy.assign(bytes.begin(), bytes.end());
    copy.resize((bytes.size() + 3) / 4 * 4);
  }
  transport_.send(
      id,
      {.kind = FrameKind::HealChunk,
       .chunk = index,
       .low = EpochNumber(static_cast<uint32_t>(bytes.size())),
       .high = EpochNumber(joiner.request),
       .payload_bytes = static_cast<uint32_t>(copy.empty() ? bytes.size() : copy.size())},
      copy, copy.empty() ? bytes : std::span<const std::byte>(),
      copy.empty() ? joiner.snapshot : nullptr);
}

void StateDonor::committing(Turn turn, bool is_flagged, std::vector<Bucket>& buckets) {
  for (auto& [id, joiner] : joiners_) {
    if (!follows(joiner)) continue;
    if (transport_.waiting_heal_bytes(id) > max_waiting_bytes_) {
      joiner.is_lost = true;  // it takes them too slowly; swept soon, and tries again
      continue;
    }
    const EpochNumber request(joiner.request);
    for (uint32_t b = 0; b < buckets.size(); ++b) {
      for (uint32_t c = 0; c < buckets[b].chunk_count(); ++c) {
        const Bucket::ChunkBytes sum = buckets[b].sum_bytes(c);
        std::vector<std::byte> payload(sum.marks.begin(), sum.marks.end());
        payload.insert(payload.end(), sum.elements.begin(), sum.elements.end());
        send(id, joiner,
             {.kind = FrameKind::HealSum,
              .bucket = BucketId(b),
              .chunk = c,
              .turn = turn,
              .tag = buckets[b].sum_tag(c),
              .high = request,
              .payload_bytes = static_cast<uint32_t>(payload.size())},
             payload);
      }
    }
    send(id, joiner,
         {.kind = FrameKind::HealCommit,
          .turn = turn,
          .low = EpochNumber(is_flagged ? 1 : 0),
          .high = request},
         {});
  }
}

void StateDonor::entered(const Epoch& epoch) {
  std::vector<std::byte> bytes = wire::encode_epoch(epoch);
  const auto size_bytes = static_cast<uint32_t>(bytes.size());
  bytes.resize((bytes.size() + 3) / 4 * 4);
  if (bytes.size() > kMaxPayloadBytes) return;  // the joiner then joins by a decision, or not
  for (auto& [id, joiner] : joiners_) {
    if (!follows(joiner)) continue;
    send(id, joiner,
         {.kind = FrameKind::HealEpoch,
          .low = EpochNumber(size_bytes),
          .high = EpochNumber(joiner.request),
          .payload_bytes = static_cast<uint32_t>(bytes.size())},
         bytes);
  }
}

size_t StateDonor::copies() const {
  return static_cast<size_t>(std::count_if(joiners_.begin(), joiners_.end(), [](const auto& each) {
    return each.second.snapshot != nullptr;
  }));
}

void StateDonor::lost(RankId id) {
  const auto known = joiners_.find(id);
  if (known != joiners_.end()) known->second.is_lost = true;
}

void StateDonor::sweep() {
  for (auto each = joiners_.begin(); each != joiners_.end();) {
    if (!each->second.is_lost) {
      ++each;
      continue;
    }
    transport_.end_heal(each->first);
    each = joiners_.erase(each);
  }
  if (joiners_.empty()) memory_.reset();
}

}  // namespace paceline::worker
