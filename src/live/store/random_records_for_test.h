// Random journal records of every kind, for the round trip and the fuzzer.
#pragma once

#include "base/rng.h"
#include "core/control/controller_core.h"
#include "live/rpc/random_values_for_test.h"

namespace paceline::store {

inline MembershipRecord random_membership_record(rpc::RandomValues& values, Rng& rng) {
  static_assert(std::variant_size_v<MembershipRecord> == 4, "one case below for each");
  switch (rng.below(4)) {
    case 0:
      return PrepareStarted{.number = values.epoch()};
    case 1:
      return EpochAnnounced{.epoch = values.whole_epoch()};
    case 2:
      return EpochDecided{.epoch = values.whole_epoch()};
    default:
      return EpochSettled{.number = values.epoch()};
  }
}

inline control::JournalRecord random_record(Rng& rng) {
  rpc::RandomValues values(rng);
  static_assert(std::variant_size_v<control::JournalRecord> == 10, "one case below for each");
  switch (rng.below(10)) {
    case 0:
      return control::JobSubmitted{.spec = values.job_spec()};
    case 1:
      return control::HostNamed{.host = values.host(), .name = values.text()};
    case 2:
      return control::SlotAssigned{
          .rank = values.rank(),
          .host = values.host(),
          .is_joiner = values.flag(),
          .is_spare = values.flag(),
          .is_cold = values.flag(),
          .restarts = values.small(),
          .failed_with = values.flag() ? std::optional(int32_t{-1}) : std::nullopt};
    case 3:
      return random_membership_record(values, rng);
    case 4:
      return control::MicroBatchBlamed{.step = values.step(),
                                       .micro_batch = values.micro_batch(),
                                       .rank = values.rank(),
                                       .seed = values.number(),
                                       .host_name = values.text(),
                                       .last_lines = values.lines()};
    case 5:
      return IncidentChanged{.incident = values.incident()};
    case 6:
      return control::RecoveryModeSet{.mode = values.pick(RecoveryMode::Off),
                                      .scope = values.text()};
    case 7:
      return control::StopWanted{};
    case 8:
      return control::HostKeptOut{.host = values.host(), .pause = values.duration()};
    default:
      return control::JobFinished{.verdict = values.pick(Verdict::Stopped),
                                  .exit_code = static_cast<int32_t>(values.number()),
                                  .state_digest = values.number(),
                                  .step = values.step()};
  }
}

}  // namespace paceline::store
