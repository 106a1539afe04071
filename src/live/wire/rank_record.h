// The records between a rank and its agent, one per datagram of a SOCK_SEQPACKET socket pair.
//
//   record := u32 kind | body        kind: index of the variant below
//   bodies are little-endian, fields in order, no padding; a list is u32 count | items;
//   a text is u32 length | bytes.
//
// decode() accepts nothing but what encode() makes: lengths are checked against what is left and
// against the bounds of core/model, and trailing bytes are an error.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "core/model/control_message.h"
#include "core/model/host_message.h"

namespace paceline::wire {

// --- Rank to agent ---
struct Hello {
  Endpoint endpoint;  // address 0: the host's own
  uint32_t buckets = 0;
  uint64_t gradient_bytes = 0;  // per step
  uint64_t state_bytes = 0;
  bool operator==(const Hello&) const = default;
};
struct Entered {
  EpochNumber epoch;
  Turn committed;
  Step step;
  bool operator==(const Entered&) const = default;
};
struct Done {
  bool has_left = false;
  Turn committed;
  uint64_t state_digest = 0;
  bool operator==(const Done&) const = default;
};
struct PeerNotice {
  RankId peer;
  PeerTrouble::What what = PeerTrouble::What::ConnectionLost;
  bool operator==(const PeerNotice&) const = default;
};
struct TagNotice {
  Turn turn;
  bool operator==(const TagNotice&) const = default;
};
struct DigestNotice {
  Step step;
  uint64_t digest = 0;
  bool operator==(const DigestNotice&) const = default;
};
struct HealNotice {
  uint32_t attempt = 0;
  HealProgress::What what = HealProgress::What::Level;
  RankId donor;
  std::string detail;
  bool operator==(const HealNotice&) const = default;
};
using RankRecord = std::variant<Hello, PrepareReport, Entered, Done, PeerNotice, TagNotice,
                                DigestNotice, HealNotice>;

// --- Agent to rank ---
struct HealOrder {
  uint32_t attempt = 0;
  std::vector<Donor> donors;
  bool operator==(const HealOrder&) const = default;
};
struct ReleaseOrder {
  bool operator==(const ReleaseOrder&) const = default;
};
using AgentRecord = std::variant<Announce, Prepare, Activate, Out, HealOrder, ReleaseOrder>;

// Longer records are refused. Fits an epoch of kMaxRanks members and kMaxMicroBatches.
inline constexpr size_t kMaxRecordBytes = 1u << 19;

std::vector<std::byte> encode(const RankRecord& record);
std::vector<std::byte> encode(const AgentRecord& record);
Result<RankRecord> decode_rank_record(std::span<const std::byte> bytes);
Result<AgentRecord> decode_agent_record(std::span<const std::byte> bytes);

// Parts that other carriers embed: a control message inside a stream to an agent, an epoch in a
// journal.
std::vector<std::byte> encode_control(const ControlMessage& message);
Result<ControlMessage> decode_control(std::span<const std::byte> bytes);
std::vector<std::byte> encode_epoch(const Epoch& epoch);
Result<Epoch> decode_epoch(std::span<const std::byte> bytes);

}  // namespace paceline::wire
