// Goal: no byte is left out, moved twice or taken for moved. Method: calls by script, for what
// files do not do at will; and a memfd.
#include "live/os/whole_io.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <utility>
#include <vector>

#include "live/os/descriptor.h"

namespace paceline::os {
namespace {

// Answers in turn what the script says; what is below 0 is an errno.
struct Script {
  std::vector<ssize_t> answers;
  std::vector<std::pair<size_t, size_t>> asked;
  ssize_t operator()(size_t done, size_t count) {
    asked.emplace_back(done, count);
    const ssize_t answer = answers.at(asked.size() - 1);
    errno = answer < 0 ? static_cast<int>(-answer) : 0;
    return answer < 0 ? -1 : answer;
  }
};

TEST(WholeIo, InterruptedAndShort_GoesOnWhereItWas) {
  Script script{.answers = {-EINTR, 30, -EINTR, 1, 69}, .asked = {}};
  EXPECT_EQ(move_whole(100, script), 100u);
  EXPECT_EQ(script.asked, (std::vector<std::pair<size_t, size_t>>{
                              {0, 100}, {0, 100}, {30, 70}, {30, 70}, {31, 69}}));
}

TEST(WholeIo, FailsInTheMiddle_KeepsTheReason) {
  Script script{.answers = {30, -ENOSPC}, .asked = {}};
  EXPECT_EQ(move_whole(100, script), std::nullopt);
  EXPECT_EQ(errno, ENOSPC);
}

TEST(WholeIo, MoreThanAPiece_ComesInPieces) {
  constexpr auto kPiece = static_cast<ssize_t>(kPieceBytes);
  Script script{.answers = {kPiece, 5}, .asked = {}};
  EXPECT_EQ(move_whole(kPieceBytes + 5, script), kPieceBytes + 5);
  EXPECT_EQ(script.asked[0], std::pair(size_t{0}, kPieceBytes));
  EXPECT_EQ(script.asked[1], std::pair(kPieceBytes, size_t{5}));
}

TEST(WholeIo, AtTheEndOfAFile_SaysHowMuchThereWas) {
  const Descriptor file(::memfd_create("test", MFD_CLOEXEC));
  const std::vector<std::byte> bytes(5000, std::byte{7});
  ASSERT_TRUE(write_whole(file.get(), bytes, 100));
  std::vector<std::byte> read(5000);
  EXPECT_EQ(read_whole(file.get(), read, 100), 5000u);
  EXPECT_EQ(read, bytes);
  EXPECT_EQ(read_whole(file.get(), read, 4100), 1000u);
  EXPECT_EQ(read_whole(file.get(), read, 9000), 0u);
}

TEST(WholeIo, FileThatCannotBeWritten_SaysWhy) {
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full.is_open());
  EXPECT_FALSE(write_whole(full.get(), std::vector<std::byte>(10), 0));
  EXPECT_EQ(errno, ENOSPC);
  std::vector<std::byte> read(10);
  EXPECT_EQ(read_whole(-1, read, 0), std::nullopt);
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace paceline::os
