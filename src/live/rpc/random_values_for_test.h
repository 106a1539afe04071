// Random values within the bounds of core/model, for tests of codecs. Lists are short, so that many
// rounds are cheap; every field that a converter could forget differs from its default most times.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "core/model/host_message.h"
#include "core/model/incident.h"
#include "core/model/job.h"

namespace paceline::rpc {

class RandomValues {
 public:
  explicit RandomValues(Rng& rng) : rng_(rng) {}

  HostEvent host_event() {
    switch (rng_.below(14)) {
      case 0:
        return AgentHello{.host_name = "h" + text(),
                          .agent_instance = number(),
                          .address = small(),
                          .ranks = list([this] { return presence(); })};
      case 1:
        return RankStarted{.rank = rank(), .process_id = process_id()};
      case 2:
        return RankStartFailed{.rank = rank(), .reason = text(), .is_permanent = flag()};
      case 3:
        return RankUp{.rank = rank(),
                      .endpoint = endpoint(),
                      .process_id = process_id(),
                      .state_bytes = number()};
      case 4:
        return FromRank{.rank = rank(), .report = report()};
      case 5:
        return RankEntered{.rank = rank(), .epoch = epoch(), .committed = turn(), .step = step()};
      case 6:
        return RankEnded{.rank = rank(),
                         .how = pick(RankEnded::How::Killed),
                         .code = static_cast<int32_t>(number()),
                         .was_ended_by_agent = flag(),
                         .was_in_micro_batch = flag(),
                         .phase = pick(kLastRankPhase),
                         .committed = turn(),
                         .step = step(),
                         .begun = small(),
                         .micro_batch = micro_batch(),
                         .micro_batch_seed = number(),
                         .last_lines = list([this] { return text(); })};
      case 7:
        return RankDone{
            .rank = rank(), .has_left = flag(), .committed = turn(), .state_digest = number()};
      case 8:
        return HealProgress{.rank = rank(),
                            .attempt = small(),
                            .what = pick(HealProgress::What::ChunkRepaired),
                            .donor = rank(),
                            .detail = text()};
      case 9:
        return PeerTrouble{
            .reporter = rank(), .peer = rank(), .what = pick(PeerTrouble::What::HeardAgain)};
      case 10:
        return TagTrouble{.reporter = rank(), .turn = turn()};
      case 11:
        return RankDigest{.rank = rank(), .step = step(), .digest = number()};
      case 12:
        return output();
      default:
        return Window{.at = instant(),
                      .blind = duration(),
                      .views = list([this] { return view(); }),
                      .samples = list([this] { return std::pair(rank(), sample()); }),
                      .metrics = list([this] { return metric(); })};
    }
  }

  HostCommand host_command() {
    switch (rng_.below(5)) {
      case 0:
        return Desired{.sequence = number(),
                       .program = program(),
                       .ranks = list([this] {
                         return DesiredRank{.rank = rank(),
                                            .local_rank = small(),
                                            .world_size = small(),
                                            .is_joiner = flag()};
                       }),
                       .end_grace = duration()};
      case 1:
        return ToRank{.rank = rank(), .message = control_message()};
      case 2:
        return Heal{.rank = rank(), .attempt = small(), .donors = list([this] {
                                                          return Donor{.rank = rank(),
                                                                       .host = host(),
                                                                       .endpoint = endpoint()};
                                                        })};
      case 3:
        return Release{.rank = rank()};
      default:
        return Shutdown{};
    }
  }

  JobEvent job_event() {
    switch (rng_.below(10)) {
      case 0:
        return JobStarted{.hosts = small(),
                          .ranks = small(),
                          .spares = small(),
                          .micro_batches = small(),
                          .reduce = pick(ReduceMode::Fast),
                          .has_hot_spares = flag()};
      case 1:
        return JobProgress{.committed = turn(),
                           .step = step(),
                           .epoch = epoch(),
                           .working = small(),
                           .members = small()};
      case 2:
        return TurnCommitted{.turn = turn(),
                             .step = step(),
                             .epoch = epoch(),
                             .at = instant(),
                             .micro_batches = small(),
                             .is_flagged = flag(),
                             .skipped = small(),
                             .compute = duration(),
                             .wait = duration()};
      case 3:
        return IncidentChanged{.incident = incident()};
      case 4:
        return RankPlaced{.rank = rank(),
                          .host = host(),
                          .host_name = text(),
                          .process_id = process_id(),
                          .is_spare = flag()};
      case 5:
        return metric();
      case 6:
        return output();
      case 7:
        return Goodput{.wall = duration(),
                       .useful = duration(),
                       .wait = duration(),
                       .redone = duration(),
                       .repair = duration(),
                       .heal = duration(),
                       .startup = duration(),
                       .empty_slot = duration()};
      case 8:
        return Notice{.text = text()};
      default:
        return JobEnded{.verdict = pick(Verdict::Stopped),
                        .exit_code = static_cast<int32_t>(number()),
                        .reason = text(),
                        .state_digest = number(),
                        .step = step()};
    }
  }

  JobSpec job_spec() {
    const auto hosts_max = static_cast<uint32_t>(1 + rng_.below(32));
    return {.name = text(),
            .program = program(),
            .hosts_min = static_cast<uint32_t>(1 + rng_.below(hosts_max)),
            .hosts_max = hosts_max,
            .spare_hosts = static_cast<uint32_t>(rng_.below(32)),
            .ranks_per_host = static_cast<uint32_t>(1 + rng_.below(64)),
            .micro_batches = static_cast<uint32_t>(rng_.below(kMaxMicroBatches + 1)),
            .seed = number(),
            .reduce = pick(ReduceMode::Fast),
            .recovery = pick(RecoveryMode::Off),
            .poison = pick(PoisonPolicy::Skip),
            .is_aware = flag(),
            .has_hot_spares = flag(),
            .max_restarts = small(),
            .join_timeout = duration(),
            .silence_limit = duration(),
            .stop_grace = duration(),
            .checkpoint_directory = text(),
            .checkpoint_every = number()};
  }

  std::vector<std::string> lines() {
    return list([this] { return text(); });
  }

  Epoch whole_epoch() {
    Epoch result{.number = epoch(),
                 .kind = pick(EpochKind::Emergency),
                 .members = {},
                 .owner = {},
                 .is_last = flag(),
                 .skipped = {},
                 .target = turn(),
                 .lost_owner = {}};
    const uint64_t members = 1 + rng_.below(6);
    for (uint64_t i = 0; i < members; ++i) {
      result.members.push_back(
          {.rank = {.slot = SlotId(static_cast<uint32_t>(i)), .incarnation = Incarnation(small())},
           .host = host(),
           .endpoint = endpoint()});
    }
    const uint64_t micro_batches = members + rng_.below(20);
    for (uint64_t m = 0; m < micro_batches; ++m)
      result.owner.push_back(static_cast<MemberIndex>(rng_.below(members)));
    for (uint64_t n = rng_.below(3); n > 0; --n)
      result.skipped.push_back(
          {step(), MicroBatch(static_cast<uint32_t>(rng_.below(micro_batches)))});
    if (result.kind == EpochKind::Planned) {
      result.target = Turn();
    } else {
      for (uint64_t m = 0; m < micro_batches; ++m)
        result.lost_owner.push_back(flag() ? kNoMember
                                           : static_cast<MemberIndex>(rng_.below(members)));
    }
    return result;
  }

  RankId rank() {
    return {.slot = SlotId(static_cast<uint32_t>(rng_.below(kMaxRanks))),
            .incarnation = Incarnation(small())};
  }
  HostId host() { return HostId(small()); }
  EpochNumber epoch() { return EpochNumber(small()); }
  Step step() { return Step(number()); }
  Turn turn() { return Turn(number()); }
  MicroBatch micro_batch() {
    return MicroBatch(static_cast<uint32_t>(rng_.below(kMaxMicroBatches)));
  }
  bool flag() { return rng_.below(2) == 1; }
  uint32_t small() { return static_cast<uint32_t>(rng_.next()); }
  uint64_t number() { return rng_.next(); }
  // Any bytes, often none.
  std::string text() {
    std::string result(rng_.below(12), '\0');
    for (char& c : result) c = static_cast<char>(rng_.below(256));
    return result;
  }
  template <class Enum>
  Enum pick(Enum last) {
    return static_cast<Enum>(rng_.below(static_cast<uint64_t>(last) + 1));
  }
  Duration duration() {
    return Duration::nanoseconds(rng_.between(-(int64_t{1} << 61), int64_t{1} << 61));
  }

  Incident incident() {
    Incident result{.id = small(),
                    .kind = pick(IncidentKind::DeadPath),
                    .hang_class = pick(HangClass::Traced),
                    .rank = {},
                    .host = {},
                    .detected = instant(),
                    .aborted = {},
                    .recovered = {},
                    .micro_batches_redone = small(),
                    .step = step(),
                    .evidence = text(),
                    .action = pick(ActionKind::Skip),
                    .reason = text(),
                    .alternatives = list([this] {
                      return Alternative{.action = pick(ActionKind::Skip),
                                         .cost_rank_ms = process_id(),
                                         .why = text()};
                    }),
                    .was_only_observed = flag()};
    if (flag()) result.rank = rank();
    if (flag()) result.host = host();
    if (flag()) result.aborted = instant();
    if (flag()) result.recovered = instant();
    return result;
  }

 private:
  template <class Item>
  std::vector<std::invoke_result_t<Item>> list(Item item) {
    std::vector<std::invoke_result_t<Item>> items;
    const uint64_t count = rng_.below(4);
    for (uint64_t i = 0; i < count; ++i) items.push_back(item());
    return items;
  }

  int64_t process_id() { return static_cast<int64_t>(rng_.next()); }
  Instant instant() { return Instant::from_nanoseconds(duration().in_nanoseconds()); }
  Endpoint endpoint() {
    return {.address = small(), .port = static_cast<uint16_t>(rng_.below(65536))};
  }
  OutputLine output() { return {.rank = rank(), .is_stderr = flag(), .text = text()}; }
  RankMetric metric() {
    return {.rank = rank(), .step = step(), .name = text(), .value = rng_.uniform()};
  }
  Program program() {
    return {.arguments = list([this] { return text(); }),
            .environment = list([this] { return std::pair(text(), text()); }),
            .working_directory = text(),
            .job_token = number()};
  }
  RankPresence presence() {
    return {.rank = rank(),
            .endpoint = endpoint(),
            .epoch = epoch(),
            .committed = turn(),
            .step = step(),
            .process_id = process_id()};
  }
  PrepareReport report() {
    PrepareReport result{.prepare = epoch(),
                         .epoch = epoch(),
                         .committed = turn(),
                         .step = step(),
                         .has_voted = flag(),
                         .held = {}};
    for (uint32_t m = 0; m < 40; ++m)
      if (flag()) result.held.emplace_back(m);
    return result;
  }
  RankView view() {
    return {.rank = rank(),
            .phase = pick(kLastRankPhase),
            .phase_since = instant(),
            .epoch = epoch(),
            .committed = turn(),
            .step = step(),
            .begun = small(),
            .micro_batch = micro_batch(),
            .micro_batch_seed = number(),
            .last_beat = instant(),
            .is_stopped = flag(),
            .is_traced = flag(),
            .cpu_time = duration(),
            .refused_since = instant()};
  }
  RankSample sample() {
    return {.turn = turn(),
            .step = step(),
            .epoch = epoch(),
            .micro_batches = static_cast<uint32_t>(rng_.below(kMaxMicroBatches + 1)),
            .begun = instant(),
            .committed = instant(),
            .compute = duration(),
            .wait = duration(),
            .longest_compute = duration(),
            .longest_outside = duration(),
            .run_queue_delay = duration(),
            .is_flagged = flag()};
  }
  ControlMessage control_message() {
    switch (rng_.below(4)) {
      case 0:
        return Announce{.epoch = whole_epoch()};
      case 1:
        return Prepare{.number = epoch()};
      case 2:
        return Activate{.epoch = whole_epoch()};
      default:
        return Out{.number = epoch(), .target = turn()};
    }
  }

  Rng& rng_;
};

}  // namespace paceline::rpc
