// Goal: what was appended is there after a restart, and only the newest owner appends. Method: a
// file per test, opened more than once; random records (the seed is printed; PACELINE_SEED sets
// it).
#include "live/store/journal.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <string>

#include "live/os/clock.h"
#include "live/store/journal_codec.h"
#include "live/store/random_records_for_test.h"

namespace paceline::store {
namespace {

using Records = std::vector<control::JournalRecord>;

class JournalTest : public ::testing::Test {
 protected:
  JournalTest() {
    std::string pattern = ::testing::TempDir() + "journal-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~JournalTest() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/journal"; }
  std::unique_ptr<Journal> open() const {
    Result<std::unique_ptr<Journal>> journal = Journal::open(path());
    EXPECT_TRUE(journal.has_value()) << journal.error().message;
    return std::move(journal).value();
  }
  static Records load(Journal& journal) {
    Result<Records> records = journal.load();
    EXPECT_TRUE(records.has_value()) << records.error().message;
    return std::move(records).value();
  }

 private:
  std::string folder_;
};

control::JournalRecord named(uint32_t host) {
  return control::HostNamed{.host = HostId(host), .name = "host" + std::to_string(host)};
}

TEST_F(JournalTest, RandomRecords_LoadedInOrderAfterRestart) {
  const char* const given = std::getenv("PACELINE_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : uint64_t{std::random_device()()};
  std::cout << "seed " << seed << "; repeat with PACELINE_SEED=" << seed << "\n";
  Rng rng(seed);
  Records all;
  {
    const std::unique_ptr<Journal> journal = open();
    for (int i = 0; i < 100; ++i) {
      Records batch;
      for (uint64_t n = rng.below(4); n > 0; --n) batch.push_back(random_record(rng));
      ASSERT_TRUE(journal->append(batch).has_value());
      all.insert(all.end(), batch.begin(), batch.end());
    }
  }
  EXPECT_TRUE(load(*open()) == all);
}

TEST_F(JournalTest, NewerOwner_OlderAppendsNothing) {
  const std::unique_ptr<Journal> older = open();
  ASSERT_TRUE(older->append(Records{named(1)}).has_value());
  const std::unique_ptr<Journal> newer = open();

  const Status refused = older->append(Records{named(2)});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::Refused);

  ASSERT_TRUE(newer->append(Records{named(3)}).has_value());
  EXPECT_TRUE(load(*newer) == (Records{named(1), named(3)}));
}

TEST_F(JournalTest, FileIsNoJournal_IsCorrupt) {
  std::ofstream(path()) << std::string(8192, 'x');
  const Result<std::unique_ptr<Journal>> journal = Journal::open(path());
  ASSERT_FALSE(journal.has_value());
  EXPECT_EQ(journal.error().code, ErrorCode::Corrupt);
}

TEST_F(JournalTest, FolderIsMissing_IsIo) {
  const Result<std::unique_ptr<Journal>> journal = Journal::open(path() + "/none/journal");
  ASSERT_FALSE(journal.has_value());
  EXPECT_EQ(journal.error().code, ErrorCode::Io);
}

// A limit on the size of files stands for the full disk: SQLite meets an error as it writes.
TEST_F(JournalTest, DiskIsFull_TheErrorNamesThePathAndNothingIsLost) {
  const std::unique_ptr<Journal> journal = open();
  ASSERT_TRUE(journal->append(Records{named(1)}).has_value());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{.rlim_cur = 16 * 1024, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  const control::JournalRecord large =
      control::HostNamed{.host = HostId(2), .name = std::string(1 << 20, 'x')};
  const Status failed = journal->append(Records{large});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::Io);
  EXPECT_NE(failed.error().message.find(path()), std::string::npos) << failed.error().message;
  EXPECT_NE(failed.error().message.find("disk"), std::string::npos) << failed.error().message;

  const std::unique_ptr<Journal> later = open();
  ASSERT_TRUE(later->append(Records{named(3)}).has_value());
  EXPECT_TRUE(load(*later) == (Records{named(1), named(3)}));
}

TEST(JournalCodec, GarbageBytes_AreRefused) {
  for (const char* bytes : {"", "\x08", "garbage", "\x2a\x03zzz"}) {
    const Result<control::JournalRecord> record = decode_record(bytes);
    ASSERT_FALSE(record.has_value());
    EXPECT_EQ(record.error().code, ErrorCode::Corrupt);
  }
}

TEST_F(JournalTest, Append_MedianTakesMilliseconds) {
  const std::unique_ptr<Journal> journal = open();
  std::vector<Duration> taken;
  for (uint32_t i = 0; i < 101; ++i) {
    const Instant begun = os::now();
    ASSERT_TRUE(journal->append(Records{named(i)}).has_value());
    taken.push_back(os::now() - begun);
  }
  std::sort(taken.begin(), taken.end());
  std::cout << "append: median " << taken[50] << ", worst " << taken.back() << "\n";
  EXPECT_LT(taken[50], Duration::milliseconds(200));
}

}  // namespace
}  // namespace paceline::store
