#include "live/store/journal.h"

#include <sqlite3.h>

#include <cstdint>
#include <utility>

#include "base/str.h"
#include "live/store/journal_codec.h"

namespace paceline::store {
namespace {

// How long to wait for another process that is inside its own transaction.
constexpr int kBusyTimeoutMs = 5000;

constexpr const char* kSchema =
    "PRAGMA journal_mode=WAL;"
    "PRAGMA synchronous=FULL;"
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS owner (only INTEGER PRIMARY KEY CHECK (only = 1),"
    "                                  number INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS record (sequence INTEGER PRIMARY KEY AUTOINCREMENT,"
    "                                   body BLOB NOT NULL);"
    "INSERT INTO owner VALUES (1, 1) ON CONFLICT (only) DO UPDATE SET number = number + 1;";

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

const char* remedy_for(int code) {
  switch (code & 0xff) {  // without what SQLite adds to it
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return "name another file";
    case SQLITE_FULL:
      return "make room on its disk";
    case SQLITE_BUSY:
      return "another process holds it locked: end that";
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return "make its folder one that may be written";
    default:
      return "look at its disk: is it full?";
  }
}

Error sqlite_error(sqlite3* database, const char* what) {
  const int code = sqlite3_errcode(database);
  const bool is_corrupt = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
  const char* const path = sqlite3_db_filename(database, "main");
  return {.code = is_corrupt ? ErrorCode::Corrupt : ErrorCode::Io,
          .message = str("journal ", path == nullptr ? "" : path, ": ", what, ": ",
                         sqlite3_errmsg(database), "; ", remedy_for(code))};
}

Status execute(sqlite3* database, const char* sql) {
  if (sqlite3_exec(database, sql, nullptr, nullptr, nullptr) != SQLITE_OK)
    return sqlite_error(database, "cannot execute");
  return {};
}

Result<Statement> prepare(sqlite3* database, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database, sql, -1, &statement, nullptr) != SQLITE_OK)
    return sqlite_error(database, "cannot prepare");
  return Statement(statement);
}

// The single number that a query gives; the statement is reset, so that it holds no lock.
Result<int64_t> query_number(sqlite3* database, sqlite3_stmt* statement) {
  const int code = sqlite3_step(statement);
  const int64_t number = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
  sqlite3_reset(statement);
  if (code != SQLITE_ROW) return sqlite_error(database, "cannot read its owner");
  return number;
}

// Rolls back unless commit() has succeeded.
class Transaction {
 public:
  explicit Transaction(sqlite3* database) : database_(database) {}
  ~Transaction() {
    if (!is_committed_) sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  Status commit() {
    TRY(execute(database_, "COMMIT"));
    is_committed_ = true;
    return {};
  }

 private:
  sqlite3* const database_;
  bool is_committed_ = false;
};

}  // namespace

class Journal::State {
 public:
  // The order matters at the end of life: statements before their database.
  Database database;
  Statement select_owner;
  Statement insert_record;
  int64_t owner = 0;

  Status take_over() {
    TRY(execute(database.get(), kSchema));
    Transaction transaction(database.get());
    TRY_ASSIGN(select_owner, prepare(database.get(), "SELECT number FROM owner"));
    TRY_ASSIGN(insert_record, prepare(database.get(), "INSERT INTO record (body) VALUES (?)"));
    TRY_ASSIGN(owner, query_number(database.get(), select_owner.get()));
    return transaction.commit();
  }

  // REQUIRES: inside a transaction that has the write lock.
  Status check_owner() {
    TRY_ASSIGN(const int64_t present, query_number(database.get(), select_owner.get()));
    if (present == owner) return {};
    return Failure{ErrorCode::Refused,
                   str("journal: owner ", owner, " may not append, because owner ", present,
                       " has taken over")};
  }

  Status insert(const control::JournalRecord& record) {
    const std::string body = encode_record(record);
    sqlite3_stmt* const statement = insert_record.get();
    sqlite3_bind_blob64(statement, 1, body.data(), body.size(), SQLITE_STATIC);
    const int code = sqlite3_step(statement);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    if (code != SQLITE_DONE) return sqlite_error(database.get(), "cannot append");
    return {};
  }
};

Journal::Journal(std::unique_ptr<State> state) : state_(std::move(state)) {}
Journal::~Journal() = default;

Result<std::unique_ptr<Journal>> Journal::open(const std::string& path) {
  std::unique_ptr<State> state = std::make_unique<State>();
  sqlite3* database = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &database,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  state->database.reset(database);
  if (code != SQLITE_OK)
    return Failure{ErrorCode::Io, str("journal ", path, ": cannot open: ", sqlite3_errstr(code),
                                      "; ", remedy_for(code))};
  sqlite3_busy_timeout(database, kBusyTimeoutMs);
  TRY(state->take_over());
  return std::unique_ptr<Journal>(new Journal(std::move(state)));
}

Result<std::vector<control::JournalRecord>> Journal::load() {
  sqlite3* const database = state_->database.get();
  TRY_ASSIGN(const Statement select,
             prepare(database, "SELECT body FROM record ORDER BY sequence"));
  std::vector<control::JournalRecord> records;
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(select.get())) == SQLITE_ROW) {
    const auto* const bytes = static_cast<const char*>(sqlite3_column_blob(select.get(), 0));
    const int size = sqlite3_column_bytes(select.get(), 0);
    TRY_ASSIGN(control::JournalRecord record,
               decode_record(std::string(bytes, static_cast<size_t>(size))));
    records.push_back(std::move(record));
  }
  if (code != SQLITE_DONE) return sqlite_error(database, "cannot load");
  return records;
}

Status Journal::append(std::span<const control::JournalRecord> records) {
  if (records.empty()) return {};
  TRY(execute(state_->database.get(), "BEGIN IMMEDIATE"));
  Transaction transaction(state_->database.get());
  TRY(state_->check_owner());
  for (const control::JournalRecord& record : records) TRY(state_->insert(record));
  return transaction.commit();
}

}  // namespace paceline::store
