// Records of the controller's journal, as a restart reads them from disk. Properties: bytes are
// refused or give a record that is written and read again unchanged.
#include <string>

#include "fuzz/fuzz_target.h"
#include "live/rpc/random_values_for_test.h"
#include "live/store/journal_codec.h"

namespace paceline::fuzz {
namespace {

control::JournalRecord random_record(Rng& rng) {
  rpc::RandomValues values(rng);
  switch (rng.below(std::variant_size_v<control::JournalRecord>)) {
    case 0:
      return control::JobSubmitted{.spec = values.job_spec()};
    case 1:
      return control::HostNamed{.host = values.host(), .name = values.text()};
    case 2:
      return control::SlotAssigned{.rank = values.rank(),
                                   .host = values.host(),
                                   .is_joiner = values.flag(),
                                   .is_spare = values.flag()};
    case 3:
      return EpochAnnounced{.epoch = values.whole_epoch()};
    case 4:
      return EpochDecided{.epoch = values.whole_epoch()};
    case 5:
      return control::MicroBatchBlamed{.step = values.step(),
                                       .micro_batch = values.micro_batch(),
                                       .rank = values.rank(),
                                       .seed = values.number(),
                                       .host_name = values.text(),
                                       .last_lines = values.lines()};
    case 6:
      return control::IncidentOpened{.id = values.small(),
                                     .kind = values.pick(IncidentKind::Unknown)};
    case 7:
      return control::JobFinished{.verdict = values.pick(Verdict::Stopped),
                                  .exit_code = static_cast<int32_t>(values.number()),
                                  .state_digest = values.number(),
                                  .step = values.step()};
    default:
      return PrepareStarted{.number = values.epoch()};
  }
}

}  // namespace

Bytes make_seed(Rng& rng) { return to_bytes(store::encode_record(random_record(rng))); }

void check_input(std::span<const std::byte> input) {
  const std::string bytes(reinterpret_cast<const char*>(input.data()), input.size());
  const Result<control::JournalRecord> record = store::decode_record(bytes);
  if (!record.has_value()) {
    CHECK(record.error().code == ErrorCode::Corrupt, record.error().message);
    return;
  }
  const Result<control::JournalRecord> again = store::decode_record(store::encode_record(*record));
  CHECK(again.has_value(), again.has_value() ? "" : again.error().message);
  CHECK(*again == *record);
}

}  // namespace paceline::fuzz
