// Goal: attention looks at the past alone and averages values. Method: change one row, compare all
// others.
#include "gpt/attention.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace gpt {
namespace {

constexpr ModelConfig kConfig{.layers = 1, .width = 16, .heads = 2, .context = 24};
constexpr size_t kSequences = 2;
constexpr size_t kPositions = kSequences * kConfig.context;

std::vector<float> random_rows() {
  std::mt19937_64 generator(9);
  std::vector<float> rows(kPositions * 3 * kConfig.width);
  for (float& element : rows) element = static_cast<float>(generator() % 401) / 100.0F - 2.0F;
  return rows;
}

std::vector<float> attend(std::vector<float> query_key_value) {
  const Attention attention(kConfig);
  std::vector<float> probabilities(kSequences * attention.probability_count());
  std::vector<float> output(kPositions * kConfig.width);
  const Matrix rows{query_key_value.data(), kPositions, 3 * kConfig.width, 3 * kConfig.width};
  attention.forward(rows, probabilities, {output.data(), kPositions, kConfig.width, kConfig.width});
  return output;
}

TEST(Attention, OnePosition_Changed_MovesItsOwnAndLaterPositionsOfItsSequenceOnly) {
  const std::vector<float> before = attend(random_rows());
  for (const size_t changed : {size_t{0}, size_t{7}, size_t{8}, size_t{23}}) {
    std::vector<float> rows = random_rows();
    const auto row = rows.begin() + static_cast<std::ptrdiff_t>(changed * 3 * kConfig.width);
    std::for_each(row, row + 3 * kConfig.width, [](float& element) { element += 1.0F; });
    const std::vector<float> after = attend(rows);
    for (size_t i = 0; i < kPositions; ++i) {
      const auto offset = static_cast<std::ptrdiff_t>(i * kConfig.width);
      const bool is_same = std::equal(
          before.begin() + offset, before.begin() + offset + kConfig.width, after.begin() + offset);
      const bool is_reached = i >= changed && i < kConfig.context;
      EXPECT_EQ(is_same, !is_reached) << "position " << i << " after a change at " << changed;
    }
  }
}

TEST(Attention, FirstPosition_SeesOnlyItself_OutputIsItsValue) {
  const std::vector<float> rows = random_rows();
  const std::vector<float> output = attend(rows);
  for (size_t j = 0; j < kConfig.width; ++j) {
    EXPECT_NEAR(output[j], rows[2 * kConfig.width + j], 1e-6F);
  }
}

}  // namespace
}  // namespace gpt
