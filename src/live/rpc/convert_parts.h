// Parts of messages that several converters share. Includes protobuf, so only for convert_*.cc.
//
// write(value, message) fills a fresh message. read(message, reader) never fails by itself: the
// reader keeps the first violation of a bound, what is read after it has no meaning, and the
// outermost converter turns it into an error.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/str.h"
#include "base/time.h"
#include "core/model/host_message.h"
#include "core/model/ids.h"
#include "core/model/incident.h"
#include "core/model/job.h"
#include "paceline.pb.h"

namespace paceline::rpc {

// Bounds of what no bound of core/model covers.
inline constexpr int kMaxTextBytes = 1 << 20;
inline constexpr int kMaxArguments = 1 << 14;  // and variables of the environment
inline constexpr int kMaxLines = 4096;
inline constexpr int kMaxSamples = 1 << 18;  // and metrics, in one window
inline constexpr int kMaxDonors = 64;
inline constexpr int kMaxAlternatives = 64;
// Times further from zero than this (73 years) are refused: their differences must not overflow.
inline constexpr int64_t kMaxNanoseconds = int64_t{1} << 61;

class Reader {
 public:
  bool is_good() const { return !violation_.has_value(); }
  Error error() const {
    CHECK(violation_.has_value());
    return {.code = ErrorCode::Corrupt, .message = *violation_};
  }

  void require(bool holds, const char* what) {
    if (!holds && !violation_.has_value()) violation_ = what;
  }
  // A list that is too long is not read at all.
  bool allows(int items, uint32_t bound, const char* what) {
    const bool holds = items >= 0 && static_cast<uint32_t>(items) <= bound;
    require(holds, what);
    return holds;
  }

  const std::string& text(const std::string& text) {
    require(text.size() <= static_cast<size_t>(kMaxTextBytes), "a text is too long");
    return text;
  }
  // `last` is the last enumerator.
  template <class Enum>
  Enum enumeration(uint32_t value, Enum last) {
    const bool holds = value <= static_cast<uint32_t>(last);
    require(holds, "an unknown enumerator");
    return holds ? static_cast<Enum>(value) : Enum{};
  }
  Duration duration(int64_t nanoseconds) {
    const bool holds = nanoseconds >= -kMaxNanoseconds && nanoseconds <= kMaxNanoseconds;
    require(holds, "a time is out of range");
    return Duration::nanoseconds(holds ? nanoseconds : 0);
  }
  Instant instant(int64_t nanoseconds) {
    return Instant::from_nanoseconds(duration(nanoseconds).in_nanoseconds());
  }
  MicroBatch micro_batch(uint32_t index) {
    require(index < kMaxMicroBatches, "a micro-batch is out of range");
    return MicroBatch(index);
  }

 private:
  std::optional<std::string> violation_;
};

inline void write(const RankId& rank, proto::Rank& message) {
  message.set_slot(rank.slot.value());
  message.set_incarnation(rank.incarnation.value());
}
inline RankId read(const proto::Rank& message, Reader& reader) {
  reader.require(message.slot() < kMaxRanks, "a slot is out of range");
  return {.slot = SlotId(message.slot()), .incarnation = Incarnation(message.incarnation())};
}

inline void write(const Endpoint& endpoint, proto::Endpoint& message) {
  message.set_address(endpoint.address);
  message.set_port(endpoint.port);
}
inline Endpoint read(const proto::Endpoint& message, Reader& reader) {
  reader.require(message.port() <= std::numeric_limits<uint16_t>::max(), "a port is out of range");
  return {.address = message.address(), .port = static_cast<uint16_t>(message.port())};
}

void write(const Program& program, proto::Program& message);
Program read(const proto::Program& message, Reader& reader);
void write(const JobSpec& spec, proto::JobSpec& message);
JobSpec read(const proto::JobSpec& message, Reader& reader);
void write(const RankMetric& metric, proto::RankMetric& message);
RankMetric read(const proto::RankMetric& message, Reader& reader);
void write(const OutputLine& line, proto::OutputLine& message);
OutputLine read(const proto::OutputLine& message, Reader& reader);
void write(const Incident& incident, proto::Incident& message);
Incident read(const proto::Incident& message, Reader& reader);

}  // namespace paceline::rpc
