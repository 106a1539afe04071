// Goal: whatever becomes of a write, the newest whole checkpoint is found, and nothing torn ever
// passes for one. Method: files cut and changed at every place that matters.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "live/checkpoint/checkpoint_directory.h"

namespace paceline::checkpoint {
namespace {

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() {
    std::string pattern = ::testing::TempDir() + "checkpoint-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~CheckpointTest() override { std::filesystem::remove_all(folder_); }

  static Manifest manifest(uint64_t step, uint32_t epoch = 1, uint64_t generation = 1) {
    return {.order = {generation, EpochNumber(epoch), Turn(step + 1)},
            .step = Step(step),
            .round = 0,
            .micro_batches = 16,
            .seed = 7,
            .reduce = ReduceMode::Exact,
            .parts = {{"weights", kChunkBytes}, {"bias", 300}},
            .own_state_bytes = 20,
            .checksums = {}};
  }
  static std::vector<std::byte> data(uint64_t step) {
    std::vector<std::byte> bytes(kChunkBytes + 320);
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>((i * 31 + step) & 0xff);
    return bytes;
  }
  Status save_step(uint64_t step, uint32_t epoch = 1, uint64_t generation = 1) const {
    return save(folder_, manifest(step, epoch, generation), data(step), "0.1");
  }
  std::vector<uint64_t> steps() const {
    std::vector<uint64_t> found;
    for (const Entry& entry : list(folder_)) found.push_back(entry.manifest.step.value());
    return found;
  }
  size_t file_count() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_),
                                             std::filesystem::directory_iterator()));
  }
  static void flip_byte(const std::string& path, uint64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 1));
  }

  std::string folder_;
};

TEST_F(CheckpointTest, SavedOne_IsReadBackBitForBit) {
  ASSERT_TRUE(save_step(10));
  const Result<Loaded> loaded = load(list(folder_).at(0).path);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->checkpoint.data, data(10));
  Manifest expected = manifest(10);
  expected.checksums = loaded->checkpoint.manifest.checksums;
  EXPECT_EQ(loaded->checkpoint.manifest, expected);
  EXPECT_EQ(expected.checksums.size(), 2u);
  EXPECT_TRUE(loaded->passed_over.empty());
}

TEST_F(CheckpointTest, Many_TheLastTwoAreKept) {
  for (const uint64_t step : {10u, 20u, 30u, 40u}) ASSERT_TRUE(save_step(step));
  EXPECT_EQ(steps(), (std::vector<uint64_t>{40, 30}));
  EXPECT_EQ(file_count(), 2u);
}

TEST_F(CheckpointTest, CutAnywhere_TheOneBeforeIsChosen) {
  ASSERT_TRUE(save_step(10));
  ASSERT_TRUE(save_step(20));
  const std::string newest = list(folder_).at(0).path;
  const auto whole = std::filesystem::file_size(newest);
  // The ends of every part of the file, their neighbours, and places within.
  std::vector<uint64_t> cuts = {0, 1, 7, 8, 11, 12, 15, 16, 23, 24, 25, 60, 100, 150, 200, 1000};
  for (const uint64_t from_end : {1ull, 20ull, 21ull, 320ull, 321ull, 1ull << 19})
    cuts.push_back(whole - from_end);
  std::sort(cuts.rbegin(), cuts.rend());
  for (const uint64_t cut : cuts) {
    std::filesystem::resize_file(newest, cut);
    EXPECT_EQ(steps(), std::vector<uint64_t>{10}) << "cut at " << cut;
    const Result<Loaded> loaded = load(newest);
    ASSERT_TRUE(loaded.has_value()) << "cut at " << cut;
    EXPECT_EQ(loaded->checkpoint.manifest.step, Step(10));
    EXPECT_EQ(loaded->passed_over.size(), 1u);
  }
}

// A disk that loses what it has acknowledged leaves zeros, not a shorter file.
TEST_F(CheckpointTest, OneBitChanged_IsNamedAndTheOneBeforeIsLoaded) {
  ASSERT_TRUE(save_step(10));
  ASSERT_TRUE(save_step(20));
  const std::string newest = list(folder_).at(0).path;
  const auto whole = std::filesystem::file_size(newest);
  for (const uint64_t at :
       {0ul, 8ul, 12ul, 16ul, 24ul, 40ul, 90ul, whole - kChunkBytes, whole - 1}) {
    flip_byte(newest, at);
    const Result<Loaded> loaded = load(newest);
    ASSERT_TRUE(loaded.has_value()) << "byte " << at;
    EXPECT_EQ(loaded->checkpoint.manifest.step, Step(10)) << "byte " << at;
    ASSERT_EQ(loaded->passed_over.size(), 1u) << "byte " << at;
    EXPECT_EQ(loaded->passed_over[0].code, ErrorCode::Corrupt) << "byte " << at;
    EXPECT_NE(loaded->passed_over[0].message.find(newest), std::string::npos);
    flip_byte(newest, at);
  }
  EXPECT_EQ(load(newest)->checkpoint.manifest.step, Step(20));
}

TEST_F(CheckpointTest, NoneWhole_IsAnError) {
  ASSERT_TRUE(save_step(10));
  const std::string path = list(folder_).at(0).path;
  flip_byte(path, std::filesystem::file_size(path) - 1);
  const Result<Loaded> loaded = load(path);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_NE(loaded.error().message.find("no older checkpoint"), std::string::npos);
}

TEST_F(CheckpointTest, OlderEpoch_NeverTakesThePlaceOfANewer) {
  ASSERT_TRUE(save_step(100, 5));
  ASSERT_TRUE(save_step(90, 7));  // rolled back in between
  const Status stale = save_step(110, 6);
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code, ErrorCode::Refused);
  EXPECT_EQ(steps(), (std::vector<uint64_t>{90, 100}));
  EXPECT_EQ(file_count(), 2u) << "nothing unfinished stays";
  ASSERT_TRUE(save_step(100, 7)) << "the same step again, by the newer epoch";
  EXPECT_EQ(list(folder_).at(0).manifest.order.epoch, EpochNumber(7));
}

TEST_F(CheckpointTest, NextRun_CountsItsEpochsAnew) {
  ASSERT_TRUE(save_step(100, 9, 1));
  ASSERT_TRUE(save_step(110, 1, 2));
  EXPECT_EQ(steps(), (std::vector<uint64_t>{110, 100}));
  EXPECT_FALSE(save_step(120, 9, 1)) << "what is left of the run before is stale";
}

TEST_F(CheckpointTest, WriteThatFails_LeavesWhatWasThere) {
  ASSERT_TRUE(save_step(10));
  // The name under which it would be written is taken by a directory: open() fails.
  ASSERT_EQ(::mkdir((folder_ + "/step-00000000000000000020.checkpoint.tmp-0.1").c_str(), 0755), 0);
  EXPECT_FALSE(save_step(20));
  // And the final name: rename() fails.
  ASSERT_EQ(::mkdir((folder_ + "/step-00000000000000000030.checkpoint").c_str(), 0755), 0);
  const Status failed = save_step(30);
  EXPECT_FALSE(failed);
  EXPECT_EQ(steps(), std::vector<uint64_t>{10});
}

TEST_F(CheckpointTest, Unfinished_IsNeverChosenAndCanBeRemoved) {
  ASSERT_TRUE(save_step(10));
  std::ofstream(folder_ + "/step-00000000000000000020.checkpoint.tmp-0.1") << "torn";
  EXPECT_EQ(steps(), std::vector<uint64_t>{10});
  remove_unfinished(folder_);
  EXPECT_EQ(file_count(), 1u);
}

}  // namespace
}  // namespace paceline::checkpoint
