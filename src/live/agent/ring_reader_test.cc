// Goal: the reader takes every whole sample once, and survives a ring full of garbage. Method: the
// test writes as the library does, then as a broken program would.
#include "live/agent/ring_reader.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

namespace paceline::agent {
namespace {

class RingReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<RingReader> reader =
        RingReader::make({.slot = SlotId(1), .incarnation = Incarnation(1)});
    ASSERT_TRUE(reader.has_value());
    reader_.emplace(std::move(*reader));
    // As the rank's process maps it.
    void* memory = ::mmap(nullptr, sizeof(wire::RankRing), PROT_READ | PROT_WRITE, MAP_SHARED,
                          reader_->descriptor(), 0);
    ASSERT_NE(memory, MAP_FAILED);
    ring_ = static_cast<wire::RankRing*>(memory);
  }
  void TearDown() override {
    if (ring_ != nullptr) ::munmap(ring_, sizeof(wire::RankRing));
  }
  void write_samples(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t number = ring_->samples_written;
      wire::SampleSlot& slot = ring_->samples[number % wire::kSampleSlots];
      slot.sequence = 0;
      slot.turn = number;
      slot.sequence = number + 1;
      ring_->samples_written = number + 1;
    }
  }

  std::optional<RingReader> reader_;
  wire::RankRing* ring_ = nullptr;
};

TEST_F(RingReaderTest, New_IsReadyForTheRank) {
  EXPECT_EQ(ring_->magic, wire::kRingMagic);
  EXPECT_EQ(ring_->version, wire::kRingVersion);
  EXPECT_EQ(ring_->size_bytes, sizeof(wire::RankRing));
  EXPECT_EQ(reader_->view().phase, RankPhase::Starting);
  EXPECT_TRUE(reader_->take_samples().empty());
}

TEST_F(RingReaderTest, Samples_EachIsTakenOnce) {
  write_samples(3);
  EXPECT_EQ(reader_->take_samples().size(), 3u);
  EXPECT_TRUE(reader_->take_samples().empty());
  write_samples(2);
  const std::vector<RankSample> samples = reader_->take_samples();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].turn, Turn(3));
}

TEST_F(RingReaderTest, Overrun_KeepsTheNewest) {
  write_samples(wire::kSampleSlots + 10);
  const std::vector<RankSample> samples = reader_->take_samples();
  ASSERT_EQ(samples.size(), wire::kSampleSlots);
  EXPECT_EQ(samples.front().turn, Turn(10));
}

TEST_F(RingReaderTest, SlotBeingWritten_IsLeftOut) {
  write_samples(2);
  ring_->samples[1].sequence = 0;
  EXPECT_EQ(reader_->take_samples().size(), 1u);
}

TEST_F(RingReaderTest, Garbage_HurtsNobody) {
  std::memset(static_cast<void*>(ring_), 0xff, sizeof(wire::RankRing));
  EXPECT_EQ(reader_->view().phase, RankPhase::Starting);
  // The slot whose number happens to fit may be taken; no more than that.
  EXPECT_LE(reader_->take_samples().size(), 1u);
  for (const RankMetric& metric : reader_->take_metrics()) EXPECT_LE(metric.name.size(), 40u);
}

}  // namespace
}  // namespace paceline::agent
