#include "live/wire/rank_record.h"

#include <algorithm>
#include <functional>
#include <type_traits>
#include <utility>

#include "base/str.h"
#include "live/wire/archive.h"

namespace paceline::wire {
namespace {

constexpr size_t kMaxDetailBytes = 4096;
constexpr size_t kMaxDonors = 16;

// Const for a writer, mutable for a reader.
template <class Archive, class T>
using Ref = std::conditional_t<Archive::kIsReader, T&, const T&>;

// --- Parts ---

template <class Archive>
void fields(Archive& a, Ref<Archive, RankId> rank) {
  a.number(rank.slot);
  a.number(rank.incarnation);
}

template <class Archive>
void fields(Archive& a, Ref<Archive, Endpoint> endpoint) {
  a.number(endpoint.address);
  a.number(endpoint.port);
}

// A place is a rank with where it runs: a member of an epoch, or a donor.
template <class Archive, class Place>
void place_fields(Archive& a, Place& place) {
  fields<Archive>(a, place.rank);
  a.number(place.host);
  fields<Archive>(a, place.endpoint);
}

template <class Archive>
void owner_fields(Archive& a, Ref<Archive, std::vector<MemberIndex>> owner, size_t members) {
  a.list(owner, kMaxMicroBatches, [&](auto& index) {
    a.number(index);
    a.require(index < members || index == kNoMember);
  });
}

template <class Archive>
void fields(Archive& a, Ref<Archive, Epoch> epoch) {
  a.number(epoch.number);
  a.enumeration(epoch.kind, EpochKind::Emergency);
  a.list(epoch.members, kMaxRanks, [&](auto& member) { place_fields(a, member); });
  owner_fields(a, epoch.owner, epoch.members.size());
  a.flag(epoch.is_last);
  a.list(epoch.skipped, kMaxSkipped, [&](auto& skipped) {
    a.number(skipped.step);
    a.number(skipped.micro_batch);
    a.require(skipped.micro_batch.value() < epoch.owner.size());
  });
  a.number(epoch.target);
  owner_fields(a, epoch.lost_owner, epoch.members.size());
  a.require(epoch.lost_owner.empty() || epoch.lost_owner.size() == epoch.owner.size());
}

// --- Records ---

template <class Archive>
void fields(Archive& a, Ref<Archive, Announce> message) {
  fields<Archive>(a, message.epoch);
}
template <class Archive>
void fields(Archive& a, Ref<Archive, Prepare> message) {
  a.number(message.number);
}
template <class Archive>
void fields(Archive& a, Ref<Archive, Activate> message) {
  fields<Archive>(a, message.epoch);
}
template <class Archive>
void fields(Archive& a, Ref<Archive, Out> message) {
  a.number(message.number);
  a.number(message.target);
}
template <class Archive>
void fields(Archive& a, Ref<Archive, HealOrder> order) {
  a.number(order.attempt);
  a.list(order.donors, kMaxDonors, [&](auto& donor) { place_fields(a, donor); });
}
template <class Archive>
void fields(Archive&, Ref<Archive, ReleaseOrder>) {}

template <class Archive>
void fields(Archive& a, Ref<Archive, Hello> hello) {
  fields<Archive>(a, hello.endpoint);
  a.number(hello.buckets);
  a.number(hello.gradient_bytes);
  a.number(hello.state_bytes);
}
template <class Archive>
void fields(Archive& a, Ref<Archive, PrepareReport> report) {
  a.number(report.prepare);
  a.number(report.epoch);
  a.number(report.committed);
  a.number(report.step);
  a.flag(report.has_voted);
  a.list(report.held, kMaxMicroBatches, [&](auto& m) {
    a.number(m);
    a.require(m.value() < kMaxMicroBatches);
  });
  // Strictly ascending: a micro-batch is held once.
  a.require(std::adjacent_find(report.held.begin(), report.held.end(), std::greater_equal<>()) ==
            report.held.end());
}
template <class Archive>
void fields(Archive& a, Ref<Archive, Entered> entered) {
  a.number(entered.epoch);
  a.number(entered.committed);
  a.number(entered.step);
}
template <class Archive>
void fields(Archive& a, Ref<Archive, Done> done) {
  a.flag(done.has_left);
  a.number(done.committed);
  a.number(done.state_digest);
}
template <class Archive>
void fields(Archive& a, Ref<Archive, PeerNotice> notice) {
  fields<Archive>(a, notice.peer);
  a.enumeration(notice.what, PeerTrouble::What::HeardAgain);
}
template <class Archive>
void fields(Archive& a, Ref<Archive, TagNotice> notice) {
  a.number(notice.turn);
}
template <class Archive>
void fields(Archive& a, Ref<Archive, DigestNotice> notice) {
  a.number(notice.step);
  a.number(notice.digest);
}
template <class Archive>
void fields(Archive& a, Ref<Archive, HealNotice> notice) {
  a.number(notice.attempt);
  a.enumeration(notice.what, HealProgress::What::ChunkRepaired);
  fields<Archive>(a, notice.donor);
  a.text(notice.detail, kMaxDetailBytes);
}

// --- Variants ---

template <class Variant>
std::vector<std::byte> encode_variant(const Variant& record) {
  ByteWriter writer;
  writer.number(static_cast<uint32_t>(record.index()));
  std::visit([&writer](const auto& body) { fields<ByteWriter>(writer, body); }, record);
  return writer.take();
}

template <class Variant, size_t... Index>
bool read_alternative(ByteReader& reader, uint32_t kind, Variant& record,
                      std::index_sequence<Index...>) {
  const auto read = [&]<size_t I>(std::integral_constant<size_t, I>) {
    fields<ByteReader>(reader, record.template emplace<I>());
    return true;
  };
  return ((kind == Index && read(std::integral_constant<size_t, Index>())) || ...);
}

template <class Variant>
Result<Variant> decode_variant(std::span<const std::byte> bytes, const char* what) {
  if (bytes.size() > kMaxRecordBytes)
    return Failure{ErrorCode::InvalidArgument,
                   str(what, ": ", bytes.size(), " bytes are too many")};
  ByteReader reader(bytes);
  uint32_t kind = 0;
  reader.number(kind);
  Variant record;
  const bool is_known = read_alternative(reader, kind, record,
                                         std::make_index_sequence<std::variant_size_v<Variant>>());
  if (!is_known || !reader.is_complete())
    return Failure{ErrorCode::Corrupt,
                   str(what, " of kind ", kind, " and ", bytes.size(), " bytes is malformed")};
  return record;
}

}  // namespace

std::vector<std::byte> encode(const RankRecord& record) { return encode_variant(record); }
std::vector<std::byte> encode(const AgentRecord& record) { return encode_variant(record); }
std::vector<std::byte> encode_control(const ControlMessage& message) {
  return encode_variant(message);
}

Result<RankRecord> decode_rank_record(std::span<const std::byte> bytes) {
  return decode_variant<RankRecord>(bytes, "a rank's record");
}
Result<AgentRecord> decode_agent_record(std::span<const std::byte> bytes) {
  return decode_variant<AgentRecord>(bytes, "an agent's record");
}
Result<ControlMessage> decode_control(std::span<const std::byte> bytes) {
  return decode_variant<ControlMessage>(bytes, "a control message");
}

std::vector<std::byte> encode_epoch(const Epoch& epoch) {
  ByteWriter writer;
  fields<ByteWriter>(writer, epoch);
  return writer.take();
}

Result<Epoch> decode_epoch(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Epoch epoch;
  fields<ByteReader>(reader, epoch);
  if (!reader.is_complete())
    return Failure{ErrorCode::Corrupt, str("an epoch of ", bytes.size(), " bytes is malformed")};
  return epoch;
}

}  // namespace paceline::wire
