// A journal record as bytes: a serialised proto::JournalRecord.
#pragma once

#include <string>

#include "base/result.h"
#include "core/control/controller_core.h"

namespace paceline::store {

std::string encode_record(const control::JournalRecord& record);
// Error Corrupt if the bytes are no record.
Result<control::JournalRecord> decode_record(const std::string& bytes);

}  // namespace paceline::store
