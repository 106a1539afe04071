// Records of the controller's journal, as a restart reads them from disk. Properties: bytes are
// refused or give a record that is written and read again unchanged.
#include <string>

#include "fuzz/fuzz_target.h"
#include "live/store/journal_codec.h"
#include "live/store/random_records_for_test.h"

namespace paceline::fuzz {

Bytes make_seed(Rng& rng) { return to_bytes(store::encode_record(store::random_record(rng))); }

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
