// Journal: what a controller must not forget, in an SQLite file.
//
//   table owner (one row):  number        raised by each opener
//   table record:           sequence, body   body: a serialised proto::JournalRecord
//
// append() is durable when it returns (WAL, synchronous=FULL). Whoever opens the journal becomes
// its owner; an append by an earlier owner fails, checked inside the same transaction, so of two
// controllers with one journal only the newer can decide anything.
//
// Threads: one.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/control/controller_core.h"

namespace paceline::store {

class Journal {
 public:
  // Makes the file if it is not there, and takes it over. Error Corrupt if it is no journal.
  static Result<std::unique_ptr<Journal>> open(const std::string& path);
  ~Journal();

  // Every record, in the order of appending.
  Result<std::vector<control::JournalRecord>> load();

  // All of them or none. Refused if there is a newer owner. Blocks for one fsync.
  Status append(std::span<const control::JournalRecord> records);

 private:
  class State;
  explicit Journal(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace paceline::store
