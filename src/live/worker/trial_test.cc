// Goal: what is said of a trial is understood as it was meant, and a malformed word is not. Method:
// the frame, there and back.
#include "live/worker/trial.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "base/str.h"

namespace paceline::worker {
namespace {

const Trial kTrial{Turn(7), MicroBatch(3), 0x1234'5678, {"a CPU @ 2 GHz", 4}};

TEST(Trial, EncodedAndDecoded_IsTheSame) {
  const std::vector<std::byte> payload = trial_payload(kTrial);
  EXPECT_EQ(payload.size(), trial_header(kTrial).payload_bytes);
  EXPECT_EQ(payload.size() % 4, 0u);
  EXPECT_EQ(decode_trial(trial_header(kTrial), payload), kTrial);
}

TEST(Trial, TypeThatIsTooLong_IsCut) {
  Trial trial = kTrial;
  trial.processor.type = std::string(500, 'x');
  const auto decoded = decode_trial(trial_header(trial), trial_payload(trial));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->processor.type, std::string(64, 'x'));
}

TEST(Trial, TypeThatIsNoText_ReachesNoTerminal) {
  Trial trial = kTrial;
  trial.processor.type = "\x1b[2J\n\xff";
  const auto decoded = decode_trial(trial_header(trial), trial_payload(trial));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->processor.type, "?[2J??");
}

TEST(Trial, OutsideItsBounds_IsRefused) {
  const std::vector<std::byte> payload = trial_payload(kTrial);
  FrameHeader header = trial_header(kTrial);
  header.chunk = kMaxMicroBatches;
  EXPECT_FALSE(decode_trial(header, payload)) << "no such micro-batch";
  header = trial_header(kTrial);
  header.low = EpochNumber(static_cast<uint32_t>(payload.size()) + 1);
  EXPECT_FALSE(decode_trial(header, payload)) << "longer than the payload";
  header.low = EpochNumber(65);
  EXPECT_FALSE(decode_trial(header, std::vector<std::byte>(68))) << "longer than a name may be";
}

TEST(Trial, GradientsExchangedBetweenBuckets_HaveAnotherDigest) {
  const std::array<std::byte, 8> one{std::byte{1}}, two{std::byte{2}};
  EXPECT_NE(gradient_digest(BucketId(0), one) + gradient_digest(BucketId(1), two),
            gradient_digest(BucketId(0), two) + gradient_digest(BucketId(1), one));
}

TEST(Processor, IsNamedWithItsThreads) {
  EXPECT_EQ(str(Processor{"a CPU", 1}), "a CPU, 1 thread");
  EXPECT_EQ(str(Processor{"a CPU", 8}), "a CPU, 8 threads");
  EXPECT_FALSE(this_processor(0).type.empty());
  EXPECT_GE(this_processor(0).threads, 1u);
}

}  // namespace
}  // namespace paceline::worker
