// HostEvent <-> proto::HostEvent.
#include <utility>
#include <variant>

#include "live/rpc/convert.h"
#include "live/rpc/convert_parts.h"

namespace paceline::rpc {
namespace {

// Overloads declared below would hide those of convert_parts.h.
using rpc::read;
using rpc::write;

void write(const RankPresence& presence, proto::RankPresence& message) {
  write(presence.rank, *message.mutable_rank());
  write(presence.endpoint, *message.mutable_endpoint());
  message.set_epoch(presence.epoch.value());
  message.set_committed(presence.committed.value());
  message.set_step(presence.step.value());
  message.set_process_id(presence.process_id);
}

void write(const RankView& view, proto::RankView& message) {
  write(view.rank, *message.mutable_rank());
  message.set_phase(static_cast<uint32_t>(view.phase));
  message.set_phase_since(view.phase_since.in_nanoseconds());
  message.set_epoch(view.epoch.value());
  message.set_committed(view.committed.value());
  message.set_step(view.step.value());
  message.set_begun(view.begun);
  message.set_micro_batch(view.micro_batch.value());
  message.set_micro_batch_seed(view.micro_batch_seed);
  message.set_last_beat(view.last_beat.in_nanoseconds());
  message.set_is_stopped(view.is_stopped);
  message.set_is_traced(view.is_traced);
  message.set_cpu_time(view.cpu_time.in_nanoseconds());
  message.set_refused_since(view.refused_since.in_nanoseconds());
}

void write(const RankId& rank, const RankSample& sample, proto::RankSample& message) {
  write(rank, *message.mutable_rank());
  message.set_turn(sample.turn.value());
  message.set_step(sample.step.value());
  message.set_epoch(sample.epoch.value());
  message.set_micro_batches(sample.micro_batches);
  message.set_begun(sample.begun.in_nanoseconds());
  message.set_committed(sample.committed.in_nanoseconds());
  message.set_compute(sample.compute.in_nanoseconds());
  message.set_wait(sample.wait.in_nanoseconds());
  message.set_longest_compute(sample.longest_compute.in_nanoseconds());
  message.set_longest_outside(sample.longest_outside.in_nanoseconds());
  message.set_run_queue_delay(sample.run_queue_delay.in_nanoseconds());
  message.set_is_flagged(sample.is_flagged);
}

struct Writer {
  proto::HostEvent& out;

  void operator()(const AgentHello& hello) const {
    proto::AgentHello& message = *out.mutable_hello();
    message.set_host_name(hello.host_name);
    message.set_agent_instance(hello.agent_instance);
    message.set_address(hello.address);
    for (const RankPresence& presence : hello.ranks) write(presence, *message.add_ranks());
  }
  void operator()(const RankStarted& started) const {
    proto::RankStarted& message = *out.mutable_started();
    write(started.rank, *message.mutable_rank());
    message.set_process_id(started.process_id);
  }
  void operator()(const RankStartFailed& failed) const {
    proto::RankStartFailed& message = *out.mutable_start_failed();
    write(failed.rank, *message.mutable_rank());
    message.set_reason(failed.reason);
    message.set_is_permanent(failed.is_permanent);
  }
  void operator()(const RankUp& up) const {
    proto::RankUp& message = *out.mutable_up();
    write(up.rank, *message.mutable_rank());
    write(up.endpoint, *message.mutable_endpoint());
    message.set_process_id(up.process_id);
    message.set_state_bytes(up.state_bytes);
  }
  void operator()(const FromRank& from) const {
    proto::FromRank& message = *out.mutable_from_rank();
    write(from.rank, *message.mutable_rank());
    proto::PrepareReport& report = *message.mutable_report();
    report.set_prepare(from.report.prepare.value());
    report.set_epoch(from.report.epoch.value());
    report.set_committed(from.report.committed.value());
    report.set_step(from.report.step.value());
    report.set_has_voted(from.report.has_voted);
    for (const MicroBatch m : from.report.held) report.add_held(m.value());
  }
  void operator()(const RankEntered& entered) const {
    proto::RankEntered& message = *out.mutable_entered();
    write(entered.rank, *message.mutable_rank());
    message.set_epoch(entered.epoch.value());
    message.set_committed(entered.committed.value());
    message.set_step(entered.step.value());
  }
  void operator()(const RankEnded& ended) const {
    proto::RankEnded& message = *out.mutable_ended();
    write(ended.rank, *message.mutable_rank());
    message.set_how(static_cast<uint32_t>(ended.how));
    message.set_code(ended.code);
    message.set_was_ended_by_agent(ended.was_ended_by_agent);
    message.set_was_in_micro_batch(ended.was_in_micro_batch);
    message.set_phase(static_cast<uint32_t>(ended.phase));
    message.set_committed(ended.committed.value());
    message.set_step(ended.step.value());
    message.set_begun(ended.begun);
    message.set_micro_batch(ended.micro_batch.value());
    message.set_micro_batch_seed(ended.micro_batch_seed);
    for (const std::string& line : ended.last_lines) message.add_last_lines(line);
  }
  void operator()(const RankDone& done) const {
    proto::RankDone& message = *out.mutable_done();
    write(done.rank, *message.mutable_rank());
    message.set_has_left(done.has_left);
    message.set_committed(done.committed.value());
    message.set_state_digest(done.state_digest);
  }
  void operator()(const HealProgress& progress) const {
    proto::HealProgress& message = *out.mutable_heal_progress();
    write(progress.rank, *message.mutable_rank());
    message.set_attempt(progress.attempt);
    message.set_what(static_cast<uint32_t>(progress.what));
    write(progress.donor, *message.mutable_donor());
    message.set_detail(progress.detail);
  }
  void operator()(const PeerTrouble& trouble) const {
    proto::PeerTrouble& message = *out.mutable_peer_trouble();
    write(trouble.reporter, *message.mutable_reporter());
    write(trouble.peer, *message.mutable_peer());
    message.set_what(static_cast<uint32_t>(trouble.what));
  }
  void operator()(const TagTrouble& trouble) const {
    proto::TagTrouble& message = *out.mutable_tag_trouble();
    write(trouble.reporter, *message.mutable_reporter());
    message.set_turn(trouble.turn.value());
  }
  void operator()(const RankDigest& digest) const {
    proto::RankDigest& message = *out.mutable_digest();
    write(digest.rank, *message.mutable_rank());
    message.set_step(digest.step.value());
    message.set_digest(digest.digest);
  }
  void operator()(const OutputLine& line) const { write(line, *out.mutable_output()); }
  void operator()(const Window& window) const {
    proto::Window& message = *out.mutable_window();
    message.set_at(window.at.in_nanoseconds());
    message.set_blind(window.blind.in_nanoseconds());
    for (const RankView& view : window.views) write(view, *message.add_views());
    for (const auto& [rank, sample] : window.samples) write(rank, sample, *message.add_samples());
    for (const RankMetric& metric : window.metrics) write(metric, *message.add_metrics());
  }
};

AgentHello read(const proto::AgentHello& message, Reader& reader) {
  AgentHello hello{.host_name = reader.text(message.host_name()),
                   .agent_instance = message.agent_instance(),
                   .address = message.address(),
                   .ranks = {}};
  reader.require(!hello.host_name.empty(), "a host has no name");
  if (!reader.allows(message.ranks_size(), kMaxRanks, "too many ranks")) return hello;
  for (const proto::RankPresence& item : message.ranks()) {
    hello.ranks.push_back({.rank = read(item.rank(), reader),
                           .endpoint = read(item.endpoint(), reader),
                           .epoch = EpochNumber(item.epoch()),
                           .committed = Turn(item.committed()),
                           .step = Step(item.step()),
                           .process_id = item.process_id()});
  }
  return hello;
}

PrepareReport read(const proto::PrepareReport& message, Reader& reader) {
  PrepareReport report{.prepare = EpochNumber(message.prepare()),
                       .epoch = EpochNumber(message.epoch()),
                       .committed = Turn(message.committed()),
                       .step = Step(message.step()),
                       .has_voted = message.has_voted(),
                       .held = {}};
  if (!reader.allows(message.held_size(), kMaxMicroBatches, "too many micro-batches"))
    return report;
  for (const uint32_t index : message.held()) {
    const MicroBatch held = reader.micro_batch(index);
    reader.require(report.held.empty() || report.held.back() < held, "held is not ascending");
    report.held.push_back(held);
  }
  return report;
}

RankEnded read(const proto::RankEnded& message, Reader& reader) {
  RankEnded ended{.rank = read(message.rank(), reader),
                  .how = reader.enumeration(message.how(), RankEnded::How::Killed),
                  .code = message.code(),
                  .was_ended_by_agent = message.was_ended_by_agent(),
                  .was_in_micro_batch = message.was_in_micro_batch(),
                  .phase = reader.enumeration(message.phase(), kLastRankPhase),
                  .committed = Turn(message.committed()),
                  .step = Step(message.step()),
                  .begun = message.begun(),
                  .micro_batch = reader.micro_batch(message.micro_batch()),
                  .micro_batch_seed = message.micro_batch_seed(),
                  .last_lines = {}};
  if (!reader.allows(message.last_lines_size(), kMaxLines, "too many lines")) return ended;
  for (const std::string& line : message.last_lines())
    ended.last_lines.push_back(reader.text(line));
  return ended;
}

RankView read(const proto::RankView& message, Reader& reader) {
  return {.rank = read(message.rank(), reader),
          .phase = reader.enumeration(message.phase(), kLastRankPhase),
          .phase_since = reader.instant(message.phase_since()),
          .epoch = EpochNumber(message.epoch()),
          .committed = Turn(message.committed()),
          .step = Step(message.step()),
          .begun = message.begun(),
          .micro_batch = reader.micro_batch(message.micro_batch()),
          .micro_batch_seed = message.micro_batch_seed(),
          .last_beat = reader.instant(message.last_beat()),
          .is_stopped = message.is_stopped(),
          .is_traced = message.is_traced(),
          .cpu_time = reader.duration(message.cpu_time()),
          .refused_since = reader.instant(message.refused_since())};
}

RankSample read(const proto::RankSample& message, Reader& reader) {
  reader.require(message.micro_batches() <= kMaxMicroBatches, "too many micro-batches");
  return {.turn = Turn(message.turn()),
          .step = Step(message.step()),
          .epoch = EpochNumber(message.epoch()),
          .micro_batches = message.micro_batches(),
          .begun = reader.instant(message.begun()),
          .committed = reader.instant(message.committed()),
          .compute = reader.duration(message.compute()),
          .wait = reader.duration(message.wait()),
          .longest_compute = reader.duration(message.longest_compute()),
          .longest_outside = reader.duration(message.longest_outside()),
          .run_queue_delay = reader.duration(message.run_queue_delay()),
          .is_flagged = message.is_flagged()};
}

Window read(const proto::Window& message, Reader& reader) {
  Window window{.at = reader.instant(message.at()),
                .blind = reader.duration(message.blind()),
                .views = {},
                .samples = {},
                .metrics = {}};
  if (!reader.allows(message.views_size(), kMaxRanks, "too many views") ||
      !reader.allows(message.samples_size(), kMaxSamples, "too many samples") ||
      !reader.allows(message.metrics_size(), kMaxSamples, "too many metrics"))
    return window;
  for (const proto::RankView& item : message.views()) window.views.push_back(read(item, reader));
  for (const proto::RankSample& item : message.samples())
    window.samples.emplace_back(read(item.rank(), reader), read(item, reader));
  for (const proto::RankMetric& item : message.metrics())
    window.metrics.push_back(read(item, reader));
  return window;
}

HostEvent read(const proto::HostEvent& message, Reader& reader) {
  switch (message.kind_case()) {
    case proto::HostEvent::kHello:
      return read(message.hello(), reader);
    case proto::HostEvent::kStarted:
      return RankStarted{.rank = read(message.started().rank(), reader),
                         .process_id = message.started().process_id()};
    case proto::HostEvent::kStartFailed:
      return RankStartFailed{.rank = read(message.start_failed().rank(), reader),
                             .reason = reader.text(message.start_failed().reason()),
                             .is_permanent = message.start_failed().is_permanent()};
    case proto::HostEvent::kUp:
      return RankUp{.rank = read(message.up().rank(), reader),
                    .endpoint = read(message.up().endpoint(), reader),
                    .process_id = message.up().process_id(),
                    .state_bytes = message.up().state_bytes()};
    case proto::HostEvent::kFromRank:
      return FromRank{.rank = read(message.from_rank().rank(), reader),
                      .report = read(message.from_rank().report(), reader)};
    case proto::HostEvent::kEntered:
      return RankEntered{.rank = read(message.entered().rank(), reader),
                         .epoch = EpochNumber(message.entered().epoch()),
                         .committed = Turn(message.entered().committed()),
                         .step = Step(message.entered().step())};
    case proto::HostEvent::kEnded:
      return read(message.ended(), reader);
    case proto::HostEvent::kDone:
      return RankDone{.rank = read(message.done().rank(), reader),
                      .has_left = message.done().has_left(),
                      .committed = Turn(message.done().committed()),
                      .state_digest = message.done().state_digest()};
    case proto::HostEvent::kHealProgress:
      return HealProgress{.rank = read(message.heal_progress().rank(), reader),
                          .attempt = message.heal_progress().attempt(),
                          .what = reader.enumeration(message.heal_progress().what(),
                                                     HealProgress::What::ChunkRepaired),
                          .donor = read(message.heal_progress().donor(), reader),
                          .detail = reader.text(message.heal_progress().detail())};
    case proto::HostEvent::kPeerTrouble:
      return PeerTrouble{
          .reporter = read(message.peer_trouble().reporter(), reader),
          .peer = read(message.peer_trouble().peer(), reader),
          .what = reader.enumeration(message.peer_trouble().what(), PeerTrouble::What::HeardAgain)};
    case proto::HostEvent::kTagTrouble:
      return TagTrouble{.reporter = read(message.tag_trouble().reporter(), reader),
                        .turn = Turn(message.tag_trouble().turn())};
    case proto::HostEvent::kDigest:
      return RankDigest{.rank = read(message.digest().rank(), reader),
                        .step = Step(message.digest().step()),
                        .digest = message.digest().digest()};
    case proto::HostEvent::kOutput:
      return read(message.output(), reader);
    case proto::HostEvent::kWindow:
      return read(message.window(), reader);
    case proto::HostEvent::KIND_NOT_SET:
      break;
  }
  reader.require(false, "an event has no kind");
  return {};
}

}  // namespace

proto::HostEvent to_proto(const HostEvent& event) {
  proto::HostEvent message;
  std::visit(Writer{message}, event);
  return message;
}

Result<HostEvent> from_proto(const proto::HostEvent& message) {
  Reader reader;
  HostEvent event = read(message, reader);
  if (!reader.is_good()) return reader.error();
  return event;
}

}  // namespace paceline::rpc
