#include "live/store/journal_codec.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "live/rpc/convert_parts.h"
#include "live/wire/rank_record.h"

namespace paceline::store {
namespace {

using rpc::read;
using rpc::Reader;
using rpc::write;

std::string epoch_bytes(const Epoch& epoch) {
  const std::vector<std::byte> bytes = wire::encode_epoch(epoch);
  std::string text(bytes.size(), '\0');
  std::transform(bytes.begin(), bytes.end(), text.begin(),
                 [](std::byte b) { return static_cast<char>(b); });
  return text;
}

Epoch read_epoch(const std::string& bytes, Reader& reader) {
  Result<Epoch> epoch = wire::decode_epoch(std::as_bytes(std::span(bytes)));
  reader.require(epoch.has_value(), "an epoch is malformed");
  return epoch.has_value() ? std::move(epoch).value() : Epoch();
}

struct Writer {
  proto::JournalRecord& out;

  void operator()(const control::JobSubmitted& submitted) const {
    write(submitted.spec, *out.mutable_job_submitted());
  }
  void operator()(const control::HostNamed& named) const {
    proto::HostNamed& message = *out.mutable_host_named();
    message.set_host(named.host.value());
    message.set_name(named.name);
  }
  void operator()(const control::SlotAssigned& assigned) const {
    proto::SlotAssigned& message = *out.mutable_slot_assigned();
    write(assigned.rank, *message.mutable_rank());
    message.set_host(assigned.host.value());
    message.set_is_joiner(assigned.is_joiner);
    message.set_is_spare(assigned.is_spare);
    message.set_restarts(assigned.restarts);
    if (assigned.failed_with) message.set_failed_with(*assigned.failed_with);
    message.set_is_cold(assigned.is_cold);
  }
  void operator()(const MembershipRecord& record) const { std::visit(*this, record); }
  void operator()(const PrepareStarted& started) const {
    out.set_prepare_started(started.number.value());
  }
  void operator()(const EpochAnnounced& announced) const {
    out.set_epoch_announced(epoch_bytes(announced.epoch));
  }
  void operator()(const EpochDecided& decided) const {
    out.set_epoch_decided(epoch_bytes(decided.epoch));
  }
  void operator()(const EpochSettled& settled) const {
    out.set_epoch_settled(settled.number.value());
  }
  void operator()(const control::MicroBatchBlamed& blamed) const {
    proto::MicroBatchBlamed& message = *out.mutable_micro_batch_blamed();
    message.set_step(blamed.step.value());
    message.set_micro_batch(blamed.micro_batch.value());
    write(blamed.rank, *message.mutable_rank());
    message.set_seed(blamed.seed);
    message.set_host_name(blamed.host_name);
    for (const std::string& line : blamed.last_lines) message.add_last_lines(line);
  }
  void operator()(const control::HostKeptOut& kept) const {
    proto::HostKeptOut& message = *out.mutable_host_kept_out();
    message.set_host(kept.host.value());
    message.set_pause(kept.pause.in_nanoseconds());
  }
  void operator()(const IncidentChanged& changed) const {
    write(changed.incident, *out.mutable_incident_changed());
  }
  void operator()(const control::RecoveryModeSet& set) const {
    proto::RecoveryModeSet& message = *out.mutable_recovery_mode_set();
    message.set_mode(static_cast<uint32_t>(set.mode));
    message.set_scope(set.scope);
  }
  void operator()(const control::StopWanted&) const { out.mutable_stop_wanted(); }
  void operator()(const control::JobFinished& finished) const {
    proto::JobFinished& message = *out.mutable_job_finished();
    message.set_verdict(static_cast<uint32_t>(finished.verdict));
    message.set_exit_code(finished.exit_code);
    message.set_state_digest(finished.state_digest);
    message.set_step(finished.step.value());
  }
};

control::MicroBatchBlamed read_blamed(const proto::MicroBatchBlamed& message, Reader& reader) {
  control::MicroBatchBlamed blamed{.step = Step(message.step()),
                                   .micro_batch = reader.micro_batch(message.micro_batch()),
                                   .rank = read(message.rank(), reader),
                                   .seed = message.seed(),
                                   .host_name = reader.text(message.host_name()),
                                   .last_lines = {}};
  if (!reader.allows(message.last_lines_size(), rpc::kMaxLines, "too many lines")) return blamed;
  for (const std::string& line : message.last_lines())
    blamed.last_lines.push_back(reader.text(line));
  return blamed;
}

control::SlotAssigned read_assigned(const proto::SlotAssigned& message, Reader& reader) {
  control::SlotAssigned assigned{.rank = read(message.rank(), reader),
                                 .host = HostId(message.host()),
                                 .is_joiner = message.is_joiner(),
                                 .is_spare = message.is_spare(),
                                 .is_cold = message.is_cold(),
                                 .restarts = message.restarts()};
  if (message.has_failed_with()) assigned.failed_with = message.failed_with();
  return assigned;
}

control::JournalRecord read_record(const proto::JournalRecord& message, Reader& reader) {
  switch (message.kind_case()) {
    case proto::JournalRecord::kJobSubmitted:
      return control::JobSubmitted{.spec = read(message.job_submitted(), reader)};
    case proto::JournalRecord::kHostNamed:
      return control::HostNamed{.host = HostId(message.host_named().host()),
                                .name = reader.text(message.host_named().name())};
    case proto::JournalRecord::kSlotAssigned:
      return read_assigned(message.slot_assigned(), reader);
    case proto::JournalRecord::kPrepareStarted:
      return PrepareStarted{.number = EpochNumber(message.prepare_started())};
    case proto::JournalRecord::kEpochAnnounced:
      return EpochAnnounced{.epoch = read_epoch(message.epoch_announced(), reader)};
    case proto::JournalRecord::kEpochDecided:
      return EpochDecided{.epoch = read_epoch(message.epoch_decided(), reader)};
    case proto::JournalRecord::kEpochSettled:
      return EpochSettled{.number = EpochNumber(message.epoch_settled())};
    case proto::JournalRecord::kMicroBatchBlamed:
      return read_blamed(message.micro_batch_blamed(), reader);
    case proto::JournalRecord::kHostKeptOut:
      return control::HostKeptOut{.host = HostId(message.host_kept_out().host()),
                                  .pause = reader.duration(message.host_kept_out().pause())};
    case proto::JournalRecord::kIncidentChanged:
      return IncidentChanged{.incident = read(message.incident_changed(), reader)};
    case proto::JournalRecord::kRecoveryModeSet:
      return control::RecoveryModeSet{
          .mode = reader.enumeration(message.recovery_mode_set().mode(), RecoveryMode::Off),
          .scope = reader.text(message.recovery_mode_set().scope())};
    case proto::JournalRecord::kStopWanted:
      return control::StopWanted{};
    case proto::JournalRecord::kJobFinished:
      return control::JobFinished{
          .verdict = reader.enumeration(message.job_finished().verdict(), Verdict::Stopped),
          .exit_code = message.job_finished().exit_code(),
          .state_digest = message.job_finished().state_digest(),
          .step = Step(message.job_finished().step())};
    case proto::JournalRecord::KIND_NOT_SET:
      break;
  }
  reader.require(false, "a record has no kind");
  return {};
}

}  // namespace

std::string encode_record(const control::JournalRecord& record) {
  proto::JournalRecord message;
  std::visit(Writer{message}, record);
  return message.SerializeAsString();
}

Result<control::JournalRecord> decode_record(const std::string& bytes) {
  proto::JournalRecord message;
  if (!message.ParseFromString(bytes))
    return Failure{ErrorCode::Corrupt, "a journal record cannot be parsed"};
  Reader reader;
  control::JournalRecord record = read_record(message, reader);
  if (!reader.is_good()) return reader.error();
  return record;
}

}  // namespace paceline::store
