// Goal: the layout covers the parameter array once, and buckets cover the layout once. Method: walk
// both.
#include "gpt/layout.h"

#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace gpt {
namespace {

TEST(Layout, Tensors_FollowOneAnotherWithoutGaps) {
  const Layout layout(ModelConfig{});
  size_t offset = 0;
  std::set<std::string> names;
  for (const Tensor& tensor : layout.tensors()) {
    EXPECT_EQ(tensor.offset, offset) << tensor.name;
    EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
    offset += tensor.count();
  }
  EXPECT_EQ(offset, layout.parameter_count());
}

TEST(Layout, Buckets_CoverTheArrayBackwardsInSimilarSizes) {
  const Layout layout(ModelConfig{});
  for (const size_t count : {size_t{1}, size_t{2}, size_t{4}}) {
    const std::vector<BucketRange> buckets = layout.buckets(count);
    ASSERT_EQ(buckets.size(), count);
    size_t end = layout.parameter_count();
    for (const BucketRange& bucket : buckets) {
      EXPECT_EQ(bucket.offset + bucket.count(), end) << bucket.name;
      EXPECT_LT(bucket.count(), 2 * layout.parameter_count() / count) << bucket.name;
      EXPECT_GT(bucket.count(), layout.parameter_count() / count / 2) << bucket.name;
      end = bucket.offset;
    }
    EXPECT_EQ(end, 0U);
  }
}

TEST(Layout, InitialParameters_DependOnTheSeedAlone) {
  const Layout layout(ModelConfig{});
  EXPECT_EQ(layout.initial_parameters(1), layout.initial_parameters(1));
  EXPECT_NE(layout.initial_parameters(1), layout.initial_parameters(2));
}

TEST(ModelConfig, ImpossibleSizes_AreNamed) {
  EXPECT_EQ(ModelConfig{}.problem(), "");
  EXPECT_NE((ModelConfig{.layers = 0}.problem()), "");
  EXPECT_NE((ModelConfig{.width = 72, .heads = 5}.problem()), "");
  EXPECT_NE((ModelConfig{.width = 60, .heads = 4}.problem()), "");
  EXPECT_NE((ModelConfig{.context = 63}.problem()), "");
}

}  // namespace
}  // namespace gpt
