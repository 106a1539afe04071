#include "live/rpc/convert_parts.h"

#include "live/rpc/convert.h"

namespace paceline::rpc {

void write(const Program& program, proto::Program& message) {
  for (const std::string& argument : program.arguments) message.add_arguments(argument);
  for (const auto& [name, value] : program.environment) {
    proto::Variable& variable = *message.add_environment();
    variable.set_name(name);
    variable.set_value(value);
  }
  message.set_working_directory(program.working_directory);
  message.set_job_token(program.job_token);
}

Program read(const proto::Program& message, Reader& reader) {
  Program program;
  if (reader.allows(message.arguments_size(), kMaxArguments, "too many arguments"))
    for (const std::string& argument : message.arguments())
      program.arguments.push_back(reader.text(argument));
  if (reader.allows(message.environment_size(), kMaxArguments, "too many variables"))
    for (const proto::Variable& variable : message.environment())
      program.environment.emplace_back(reader.text(variable.name()), reader.text(variable.value()));
  program.working_directory = reader.text(message.working_directory());
  program.job_token = message.job_token();
  return program;
}

void write(const JobSpec& spec, proto::JobSpec& message) {
  message.set_name(spec.name);
  write(spec.program, *message.mutable_program());
  message.set_hosts_min(spec.hosts_min);
  message.set_hosts_max(spec.hosts_max);
  message.set_spare_hosts(spec.spare_hosts);
  message.set_ranks_per_host(spec.ranks_per_host);
  message.set_micro_batches(spec.micro_batches);
  message.set_seed(spec.seed);
  message.set_reduce(static_cast<uint32_t>(spec.reduce));
  message.set_recovery(static_cast<uint32_t>(spec.recovery));
  message.set_poison(static_cast<uint32_t>(spec.poison));
  message.set_is_aware(spec.is_aware);
  message.set_has_hot_spares(spec.has_hot_spares);
  message.set_max_restarts(spec.max_restarts);
  message.set_join_timeout(spec.join_timeout.in_nanoseconds());
  message.set_silence_limit(spec.silence_limit.in_nanoseconds());
  message.set_stop_grace(spec.stop_grace.in_nanoseconds());
  message.set_checkpoint_directory(spec.checkpoint_directory);
  message.set_checkpoint_every(spec.checkpoint_every);
}

JobSpec read(const proto::JobSpec& message, Reader& reader) {
  const uint64_t hosts = uint64_t{message.hosts_max()} + message.spare_hosts();
  // Each factor is bounded first, so that the product cannot overflow.
  reader.require(hosts <= kMaxRanks && message.ranks_per_host() <= kMaxRanks &&
                     hosts * message.ranks_per_host() <= kMaxRanks,
                 "a job has too many ranks");
  reader.require(message.hosts_min() <= message.hosts_max(), "hosts_min is above hosts_max");
  reader.require(message.micro_batches() <= kMaxMicroBatches, "too many micro-batches");
  return {
      .name = reader.text(message.name()),
      .program = read(message.program(), reader),
      .hosts_min = message.hosts_min(),
      .hosts_max = message.hosts_max(),
      .spare_hosts = message.spare_hosts(),
      .ranks_per_host = message.ranks_per_host(),
      .micro_batches = message.micro_batches(),
      .seed = message.seed(),
      .reduce = reader.enumeration(message.reduce(), ReduceMode::Fast),
      .recovery = reader.enumeration(message.recovery(), RecoveryMode::Off),
      .poison = reader.enumeration(message.poison(), PoisonPolicy::Skip),
      .is_aware = message.is_aware(),
      .has_hot_spares = message.has_hot_spares(),
      .max_restarts = message.max_restarts(),
      .join_timeout = reader.duration(message.join_timeout()),
      .silence_limit = reader.duration(message.silence_limit()),
      .stop_grace = reader.duration(message.stop_grace()),
      .checkpoint_directory = reader.text(message.checkpoint_directory()),
      .checkpoint_every = message.checkpoint_every(),
  };
}

void write(const RankMetric& metric, proto::RankMetric& message) {
  write(metric.rank, *message.mutable_rank());
  message.set_step(metric.step.value());
  message.set_name(metric.name);
  message.set_value(metric.value);
}

RankMetric read(const proto::RankMetric& message, Reader& reader) {
  return {.rank = read(message.rank(), reader),
          .step = Step(message.step()),
          .name = reader.text(message.name()),
          .value = message.value()};
}

void write(const OutputLine& line, proto::OutputLine& message) {
  write(line.rank, *message.mutable_rank());
  message.set_is_stderr(line.is_stderr);
  message.set_text(line.text);
}

OutputLine read(const proto::OutputLine& message, Reader& reader) {
  return {.rank = read(message.rank(), reader),
          .is_stderr = message.is_stderr(),
          .text = reader.text(message.text())};
}

void write(const Incident& incident, proto::Incident& message) {
  message.set_id(incident.id);
  message.set_kind(static_cast<uint32_t>(incident.kind));
  message.set_hang_class(static_cast<uint32_t>(incident.hang_class));
  if (incident.rank.has_value()) write(*incident.rank, *message.mutable_rank());
  if (incident.host.has_value()) message.set_host(incident.host->value());
  message.set_detected(incident.detected.in_nanoseconds());
  if (incident.aborted.has_value()) message.set_aborted(incident.aborted->in_nanoseconds());
  if (incident.recovered.has_value()) message.set_recovered(incident.recovered->in_nanoseconds());
  message.set_micro_batches_redone(incident.micro_batches_redone);
  message.set_step(incident.step.value());
  message.set_evidence(incident.evidence);
  message.set_action(static_cast<uint32_t>(incident.action));
  message.set_reason(incident.reason);
  for (const Alternative& alternative : incident.alternatives) {
    proto::Alternative& item = *message.add_alternatives();
    item.set_action(static_cast<uint32_t>(alternative.action));
    item.set_cost_rank_ms(alternative.cost_rank_ms);
    item.set_why(alternative.why);
  }
  message.set_was_only_observed(incident.was_only_observed);
}

Incident read(const proto::Incident& message, Reader& reader) {
  Incident incident{
      .id = message.id(),
      .kind = reader.enumeration(message.kind(), IncidentKind::DeadPath),
      .hang_class = reader.enumeration(message.hang_class(), HangClass::Traced),
      .rank = std::nullopt,
      .host = std::nullopt,
      .detected = reader.instant(message.detected()),
      .aborted = std::nullopt,
      .recovered = std::nullopt,
      .micro_batches_redone = message.micro_batches_redone(),
      .step = Step(message.step()),
      .evidence = reader.text(message.evidence()),
      .action = reader.enumeration(message.action(), ActionKind::Skip),
      .reason = reader.text(message.reason()),
      .alternatives = {},
      .was_only_observed = message.was_only_observed(),
  };
  if (message.has_rank()) incident.rank = read(message.rank(), reader);
  if (message.has_host()) incident.host = HostId(message.host());
  if (message.has_aborted()) incident.aborted = reader.instant(message.aborted());
  if (message.has_recovered()) incident.recovered = reader.instant(message.recovered());
  if (!reader.allows(message.alternatives_size(), kMaxAlternatives, "too many alternatives"))
    return incident;
  for (const proto::Alternative& item : message.alternatives()) {
    incident.alternatives.push_back({.action = reader.enumeration(item.action(), ActionKind::Skip),
                                     .cost_rank_ms = item.cost_rank_ms(),
                                     .why = reader.text(item.why())});
  }
  return incident;
}

proto::JobSpec to_proto(const JobSpec& spec) {
  proto::JobSpec message;
  write(spec, message);
  return message;
}

Result<JobSpec> from_proto(const proto::JobSpec& message) {
  Reader reader;
  JobSpec spec = read(message, reader);
  if (!reader.is_good()) return reader.error();
  return spec;
}

}  // namespace paceline::rpc
