// JobEvent <-> proto::JobEvent.
#include <utility>
#include <variant>

#include "live/rpc/convert.h"
#include "live/rpc/convert_parts.h"

namespace paceline::rpc {
namespace {

// Overloads declared below would hide those of convert_parts.h.
using rpc::read;
using rpc::write;

struct Writer {
  proto::JobEvent& out;

  void operator()(const JobStarted& started) const {
    proto::JobStarted& message = *out.mutable_started();
    message.set_hosts(started.hosts);
    message.set_ranks(started.ranks);
    message.set_spares(started.spares);
    message.set_micro_batches(started.micro_batches);
    message.set_reduce(static_cast<uint32_t>(started.reduce));
    message.set_has_hot_spares(started.has_hot_spares);
  }
  void operator()(const JobProgress& progress) const {
    proto::JobProgress& message = *out.mutable_progress();
    message.set_committed(progress.committed.value());
    message.set_step(progress.step.value());
    message.set_epoch(progress.epoch.value());
    message.set_working(progress.working);
    message.set_members(progress.members);
  }
  void operator()(const TurnCommitted& turn) const {
    proto::TurnCommitted& message = *out.mutable_turn_committed();
    message.set_turn(turn.turn.value());
    message.set_step(turn.step.value());
    message.set_epoch(turn.epoch.value());
    message.set_at(turn.at.in_nanoseconds());
    message.set_micro_batches(turn.micro_batches);
    message.set_is_flagged(turn.is_flagged);
    message.set_skipped(turn.skipped);
    message.set_compute(turn.compute.in_nanoseconds());
    message.set_wait(turn.wait.in_nanoseconds());
  }
  void operator()(const IncidentChanged& changed) const {
    write(changed.incident, *out.mutable_incident());
  }
  void operator()(const RankPlaced& placed) const {
    proto::RankPlaced& message = *out.mutable_rank_placed();
    write(placed.rank, *message.mutable_rank());
    message.set_host(placed.host.value());
    message.set_host_name(placed.host_name);
    message.set_process_id(placed.process_id);
    message.set_is_spare(placed.is_spare);
  }
  void operator()(const RankMetric& metric) const { write(metric, *out.mutable_metric()); }
  void operator()(const OutputLine& line) const { write(line, *out.mutable_output()); }
  void operator()(const Goodput& goodput) const {
    proto::Goodput& message = *out.mutable_goodput();
    message.set_wall(goodput.wall.in_nanoseconds());
    message.set_useful(goodput.useful.in_nanoseconds());
    message.set_wait(goodput.wait.in_nanoseconds());
    message.set_redone(goodput.redone.in_nanoseconds());
    message.set_repair(goodput.repair.in_nanoseconds());
    message.set_heal(goodput.heal.in_nanoseconds());
    message.set_startup(goodput.startup.in_nanoseconds());
    message.set_empty_slot(goodput.empty_slot.in_nanoseconds());
  }
  void operator()(const Notice& notice) const { out.mutable_notice()->set_text(notice.text); }
  void operator()(const JobEnded& ended) const {
    proto::JobEnded& message = *out.mutable_ended();
    message.set_verdict(static_cast<uint32_t>(ended.verdict));
    message.set_exit_code(ended.exit_code);
    message.set_reason(ended.reason);
    message.set_state_digest(ended.state_digest);
    message.set_step(ended.step.value());
  }
};

JobProgress read(const proto::JobProgress& message) {
  return {.committed = Turn(message.committed()),
          .step = Step(message.step()),
          .epoch = EpochNumber(message.epoch()),
          .working = message.working(),
          .members = message.members()};
}

TurnCommitted read(const proto::TurnCommitted& message, Reader& reader) {
  return {.turn = Turn(message.turn()),
          .step = Step(message.step()),
          .epoch = EpochNumber(message.epoch()),
          .at = reader.instant(message.at()),
          .micro_batches = message.micro_batches(),
          .is_flagged = message.is_flagged(),
          .skipped = message.skipped(),
          .compute = reader.duration(message.compute()),
          .wait = reader.duration(message.wait())};
}

Goodput read(const proto::Goodput& message, Reader& reader) {
  return {.wall = reader.duration(message.wall()),
          .useful = reader.duration(message.useful()),
          .wait = reader.duration(message.wait()),
          .redone = reader.duration(message.redone()),
          .repair = reader.duration(message.repair()),
          .heal = reader.duration(message.heal()),
          .startup = reader.duration(message.startup()),
          .empty_slot = reader.duration(message.empty_slot())};
}

JobEvent read(const proto::JobEvent& message, Reader& reader) {
  switch (message.kind_case()) {
    case proto::JobEvent::kStarted:
      return JobStarted{.hosts = message.started().hosts(),
                        .ranks = message.started().ranks(),
                        .spares = message.started().spares(),
                        .micro_batches = message.started().micro_batches(),
                        .reduce = reader.enumeration(message.started().reduce(), ReduceMode::Fast),
                        .has_hot_spares = message.started().has_hot_spares()};
    case proto::JobEvent::kProgress:
      return read(message.progress());
    case proto::JobEvent::kTurnCommitted:
      return read(message.turn_committed(), reader);
    case proto::JobEvent::kIncident:
      return IncidentChanged{.incident = read(message.incident(), reader)};
    case proto::JobEvent::kRankPlaced:
      return RankPlaced{.rank = read(message.rank_placed().rank(), reader),
                        .host = HostId(message.rank_placed().host()),
                        .host_name = reader.text(message.rank_placed().host_name()),
                        .process_id = message.rank_placed().process_id(),
                        .is_spare = message.rank_placed().is_spare()};
    case proto::JobEvent::kMetric:
      return read(message.metric(), reader);
    case proto::JobEvent::kOutput:
      return read(message.output(), reader);
    case proto::JobEvent::kGoodput:
      return read(message.goodput(), reader);
    case proto::JobEvent::kNotice:
      return Notice{.text = reader.text(message.notice().text())};
    case proto::JobEvent::kEnded:
      return JobEnded{.verdict = reader.enumeration(message.ended().verdict(), Verdict::Stopped),
                      .exit_code = message.ended().exit_code(),
                      .reason = reader.text(message.ended().reason()),
                      .state_digest = message.ended().state_digest(),
                      .step = Step(message.ended().step())};
    case proto::JobEvent::KIND_NOT_SET:
      break;
  }
  reader.require(false, "an event has no kind");
  return {};
}

}  // namespace

proto::JobEvent to_proto(const JobEvent& event) {
  proto::JobEvent message;
  std::visit(Writer{message}, event);
  return message;
}

Result<JobEvent> from_proto(const proto::JobEvent& message) {
  Reader reader;
  JobEvent event = read(message, reader);
  if (!reader.is_good()) return reader.error();
  return event;
}

}  // namespace paceline::rpc
