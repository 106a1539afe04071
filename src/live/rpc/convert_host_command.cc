// HostCommand <-> proto::HostCommand.
#include <cstddef>
#include <span>
#include <utility>
#include <variant>

#include "live/rpc/convert.h"
#include "live/rpc/convert_parts.h"
#include "live/wire/rank_record.h"

namespace paceline::rpc {
namespace {

// Overloads declared below would hide those of convert_parts.h.
using rpc::read;
using rpc::write;

struct Writer {
  proto::HostCommand& out;

  void operator()(const Desired& desired) const {
    proto::Desired& message = *out.mutable_desired();
    message.set_sequence(desired.sequence);
    write(desired.program, *message.mutable_program());
    message.set_end_grace(desired.end_grace.in_nanoseconds());
    for (const DesiredRank& rank : desired.ranks) {
      proto::DesiredRank& item = *message.add_ranks();
      write(rank.rank, *item.mutable_rank());
      item.set_local_rank(rank.local_rank);
      item.set_world_size(rank.world_size);
      item.set_is_joiner(rank.is_joiner);
    }
  }
  void operator()(const ToRank& to_rank) const {
    proto::ToRank& message = *out.mutable_to_rank();
    write(to_rank.rank, *message.mutable_rank());
    const std::vector<std::byte> bytes = wire::encode_control(to_rank.message);
    message.set_control_message(bytes.data(), bytes.size());
  }
  void operator()(const Heal& heal) const {
    proto::Heal& message = *out.mutable_heal();
    write(heal.rank, *message.mutable_rank());
    message.set_attempt(heal.attempt);
    for (const Donor& donor : heal.donors) {
      proto::Donor& item = *message.add_donors();
      write(donor.rank, *item.mutable_rank());
      item.set_host(donor.host.value());
      write(donor.endpoint, *item.mutable_endpoint());
    }
  }
  void operator()(const Release& release) const {
    write(release.rank, *out.mutable_release()->mutable_rank());
  }
  void operator()(const Shutdown&) const { out.mutable_shutdown(); }
};

Desired read(const proto::Desired& message, Reader& reader) {
  Desired desired{.sequence = message.sequence(),
                  .program = read(message.program(), reader),
                  .ranks = {},
                  .end_grace = reader.duration(message.end_grace())};
  if (!reader.allows(message.ranks_size(), kMaxRanks, "too many ranks")) return desired;
  for (const proto::DesiredRank& item : message.ranks()) {
    desired.ranks.push_back({.rank = read(item.rank(), reader),
                             .local_rank = item.local_rank(),
                             .world_size = item.world_size(),
                             .is_joiner = item.is_joiner()});
  }
  return desired;
}

ToRank read(const proto::ToRank& message, Reader& reader) {
  Result<ControlMessage> control =
      wire::decode_control(std::as_bytes(std::span(message.control_message())));
  reader.require(control.has_value(), "a control message is malformed");
  return {.rank = read(message.rank(), reader),
          .message = control.has_value() ? std::move(control).value() : ControlMessage()};
}

Heal read(const proto::Heal& message, Reader& reader) {
  Heal heal{.rank = read(message.rank(), reader), .attempt = message.attempt(), .donors = {}};
  if (!reader.allows(message.donors_size(), kMaxDonors, "too many donors")) return heal;
  for (const proto::Donor& item : message.donors()) {
    heal.donors.push_back({.rank = read(item.rank(), reader),
                           .host = HostId(item.host()),
                           .endpoint = read(item.endpoint(), reader)});
  }
  return heal;
}

HostCommand read(const proto::HostCommand& message, Reader& reader) {
  switch (message.kind_case()) {
    case proto::HostCommand::kDesired:
      return read(message.desired(), reader);
    case proto::HostCommand::kToRank:
      return read(message.to_rank(), reader);
    case proto::HostCommand::kHeal:
      return read(message.heal(), reader);
    case proto::HostCommand::kRelease:
      return Release{.rank = read(message.release().rank(), reader)};
    case proto::HostCommand::kShutdown:
      return Shutdown{};
    case proto::HostCommand::KIND_NOT_SET:
      break;
  }
  reader.require(false, "a command has no kind");
  return {};
}

}  // namespace

proto::HostCommand to_proto(const HostCommand& command) {
  proto::HostCommand message;
  std::visit(Writer{message}, command);
  return message;
}

Result<HostCommand> from_proto(const proto::HostCommand& message) {
  Reader reader;
  HostCommand command = read(message, reader);
  if (!reader.is_good()) return reader.error();
  return command;
}

}  // namespace paceline::rpc
