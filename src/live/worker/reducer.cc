#include "live/worker/reducer.h"

#include "base/check.h"

namespace paceline::worker {

using collective::RingAction;

void Reducer::begin(const Round& round) {
  CHECK((round.members == 1) == (round.transport == nullptr), round.members);
  round_ = round;
  works_.clear();
  reduced_.clear();
  running_ = 0;
  for (const Bucket& bucket : buckets_)
    works_.push_back(
        {.ring = collective::RingReduction(
             {.members = round.members, .self = round.self, .chunks = bucket.chunk_count()}),
         .own_tag = 0});
}

void Reducer::own_ready(BucketId bucket, uint64_t tag) {
  CHECK(round_.has_value());
  Work& work = works_[bucket.value()];
  work.own_tag = tag;
  ++running_;
  work.ring.own_ready();
  run(bucket);
}

FrameVerdict Reducer::take_chunk(RankId sender, const FrameHeader& header,
                                 std::span<const std::byte> payload) {
  CHECK(round_.has_value());
  if (sender != round_->previous || header.bucket.value() >= works_.size())
    return FrameVerdict::Refuse;
  Bucket& bucket = buckets_[header.bucket.value()];
  if (header.chunk >= bucket.chunk_count() || payload.size() != bucket.payload_bytes(header.chunk))
    return FrameVerdict::Refuse;
  if (!works_[header.bucket.value()].ring.received(header.chunk, header.hop))
    return FrameVerdict::Refuse;
  bucket.store(header.chunk, payload, header.tag);
  run(header.bucket);
  return FrameVerdict::Taken;
}

void Reducer::run(BucketId id) {
  Bucket& bucket = buckets_[id.value()];
  Work& work = works_[id.value()];
  for (const RingAction& action : work.ring.take_actions()) {
    switch (action.kind) {
      case RingAction::Kind::CopyOwn:
        bucket.copy_own(action.chunk, work.own_tag);
        break;
      case RingAction::Kind::AddOwn:
        bucket.add_own(action.chunk, work.own_tag);
        break;
      case RingAction::Kind::SendOwn:
      case RingAction::Kind::SendSum:
        send(id, action);
        break;
      case RingAction::Kind::Complete:
        --running_;
        reduced_.push_back({id, bucket.tag(round_->expected_tag), bucket.is_flagged()});
        break;
    }
  }
}

void Reducer::send(BucketId id, const RingAction& action) {
  Bucket& bucket = buckets_[id.value()];
  const bool is_own = action.kind == RingAction::Kind::SendOwn;
  const Bucket::ChunkBytes bytes =
      is_own ? bucket.own_bytes(action.chunk) : bucket.sum_bytes(action.chunk);
  const FrameHeader header{
      .kind = FrameKind::Chunk,
      .epoch = round_->epoch,
      .bucket = id,
      .chunk = action.chunk,
      .hop = action.hop,
      .turn = round_->turn,
      .tag = is_own ? works_[id.value()].own_tag : bucket.sum_tag(action.chunk),
      .payload_bytes = static_cast<uint32_t>(bytes.marks.size() + bytes.elements.size()),
  };
  round_->transport->send(round_->next, header, bytes.marks, bytes.elements);
}

}  // namespace paceline::worker
