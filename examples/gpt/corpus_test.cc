// Goal: training and held-out text never meet, and a batch is a function of its seed. Method: a
// text that numbers its own places.
#include "gpt/corpus.h"

#include <string>

#include <gtest/gtest.h>

namespace gpt {
namespace {

constexpr size_t kContext = 16;

// 'h' in the last 5%, 't' before.
std::string marked_text() { return std::string(9500, 't') + std::string(500, 'h'); }

TEST(Corpus, Split_LastTwentieth_IsHeldOut) {
  const Corpus corpus(marked_text(), kContext);
  EXPECT_EQ(corpus.training().size(), 9500U);
  EXPECT_EQ(corpus.held_out().size(), 500U);
}

TEST(Corpus, TrainingBatches_ManySeeds_NeverShowHeldOutText) {
  const Corpus corpus(marked_text(), kContext);
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const Batch batch = corpus.training_batch(seed, 4);
    ASSERT_EQ(batch.inputs.size(), 4 * kContext);
    for (const uint8_t byte : batch.inputs) ASSERT_EQ(byte, 't') << "seed " << seed;
    for (const uint8_t byte : batch.targets) ASSERT_EQ(byte, 't') << "seed " << seed;
  }
}

TEST(Corpus, HeldOutBatch_ShowsHeldOutTextAlone) {
  const Batch batch = Corpus(marked_text(), kContext).held_out_batch(40);
  ASSERT_EQ(batch.inputs.size(), 40 * kContext);
  for (const uint8_t byte : batch.inputs) EXPECT_EQ(byte, 'h');
  for (const uint8_t byte : batch.targets) EXPECT_EQ(byte, 'h');
}

TEST(Corpus, TrainingBatch_TargetsAreTheFollowingBytes_AndTheSeedDecides) {
  std::string text;
  for (size_t i = 0; i < 10000; ++i) text.push_back(static_cast<char>(i % 251));
  const Corpus corpus(text, kContext);
  const Batch batch = corpus.training_batch(7, 5);
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    EXPECT_EQ(batch.targets[i], (batch.inputs[i] + 1) % 251);
  }
  EXPECT_EQ(corpus.training_batch(7, 5).inputs, batch.inputs);
  EXPECT_NE(corpus.training_batch(8, 5).inputs, batch.inputs);
}

TEST(Corpus, TextTooShort_IsRefusedWithItsSize) {
  try {
    Corpus(std::string(20 * kContext, 'x'), kContext);
    FAIL() << "accepted";
  } catch (const CorpusError& error) {
    EXPECT_NE(std::string(error.what()).find("320 bytes"), std::string::npos) << error.what();
  }
}

TEST(ReadTextFile, MissingFile_ThrowsItsName) {
  try {
    read_text_file("/nonexistent/text");
    FAIL() << "accepted";
  } catch (const CorpusError& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/text"), std::string::npos);
  }
}

}  // namespace
}  // namespace gpt
