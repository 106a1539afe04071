// Goal: limits hold up the whole tree, and queues are served in the order that KAI documents.
// Method: small trees.
#include "core/sched/queue_tree.h"

#include <gtest/gtest.h>

#include "core/sched/queue_order.h"

namespace paceline::sched {
namespace {

struct Row {
  const char* name;
  std::optional<uint32_t> parent;
  int64_t quota = 0;
  int64_t limit = -1;
  int32_t priority = 0;
};

QueueTree tree_of(const std::vector<Row>& rows) {
  std::vector<QueueSpec> specs;
  for (const Row& row : rows) {
    QueueSpec spec{.id = QueueId(static_cast<uint32_t>(specs.size())),
                   .name = row.name,
                   .quota = Resources::gpus(row.quota),
                   .priority = row.priority,
                   .created = static_cast<int64_t>(specs.size())};
    if (row.parent) spec.parent = QueueId(*row.parent);
    if (row.limit >= 0) spec.limit[kGpu] = row.limit * kMilli;
    specs.push_back(spec);
  }
  return *QueueTree::make(specs);
}

TEST(QueueTree, Circle_IsRefusedByName) {
  const auto made = QueueTree::make({{.id = QueueId(1), .name = "a", .parent = QueueId(2)},
                                     {.id = QueueId(2), .name = "b", .parent = QueueId(1)}});
  ASSERT_FALSE(made.has_value());
  EXPECT_NE(made.error().message.find("queue a is its own ancestor"), std::string::npos);
}

TEST(QueueTree, UnknownParentAndSecondName_AreRefused) {
  EXPECT_FALSE(
      QueueTree::make({{.id = QueueId(1), .name = "a", .parent = QueueId(7)}}).has_value());
  EXPECT_FALSE(QueueTree::make({{.id = QueueId(1), .name = "a"}, {.id = QueueId(2), .name = "a"}})
                   .has_value());
}

TEST(QueueTree, S12_GangAboveALimitOfAnAncestor_NamesQueueLimitAndNeed) {
  QueueTree tree = tree_of({{"department", {}, 0, 4}, {"team", 0}});
  const auto breach = tree.breach(1, Resources::gpus(6), true);
  ASSERT_TRUE(breach.has_value());
  EXPECT_EQ(breach->queue, 0u);
  EXPECT_EQ(breach->limit, 4000);
  EXPECT_EQ(breach->needed, 6000);
  EXPECT_FALSE(tree.breach(1, Resources::gpus(4), true).has_value());
}

TEST(QueueTree, NonPreemptibleWork_StaysWithinQuota) {
  QueueTree tree = tree_of({{"team", {}, 4}});
  EXPECT_FALSE(tree.breach(0, Resources::gpus(4), false).has_value());
  tree.add_allocated(0, Resources::gpus(3), false);
  ASSERT_TRUE(tree.breach(0, Resources::gpus(2), false).has_value());
  EXPECT_TRUE(tree.breach(0, Resources::gpus(2), false)->is_quota);
  EXPECT_FALSE(tree.breach(0, Resources::gpus(2), true).has_value());
  EXPECT_FALSE(tree.breach_when_idle(0, Resources::gpus(2), false).has_value());
}

TEST(QueueTree, Allocation_CountsInEveryAncestorAndGoesAgain) {
  QueueTree tree = tree_of({{"root", {}}, {"department", 0}, {"team", 1}});
  const uint64_t before = tree.hash();
  tree.add_allocated(2, Resources::gpus(3), false);
  EXPECT_EQ(tree[0].allocated, Resources::gpus(3));
  EXPECT_NE(tree.hash(), before);
  tree.add_allocated(2, Resources::gpus(-3), false);
  EXPECT_EQ(tree.hash(), before);
}

struct OrderCase {
  const char* rule;
  std::vector<Row> rows;
  std::vector<int64_t> held;
  std::vector<int64_t> asked;
  size_t first;
};

TEST(QueueOrder, Rules_DecideInTheirOrder) {
  const std::vector<OrderCase> cases = {
      {"above its share comes last", {{"a", {}}, {"b", {}}}, {8, 2}, {1, 9}, 1},
      {"within quota comes first", {{"a", {}, 0, -1, 9}, {"b", {}, 4}}, {1, 1}, {1, 1}, 1},
      {"higher priority", {{"a", {}}, {"b", {}, 0, -1, 1}}, {1, 2}, {1, 1}, 1},
      {"smaller dominant share with the job", {{"a", {}}, {"b", {}}}, {2, 1}, {1, 1}, 1},
      {"the size of the job counts", {{"a", {}}, {"b", {}}}, {1, 2}, {4, 1}, 1},
      {"then the same without it", {{"a", {}}, {"b", {}}}, {2, 1}, {1, 2}, 1},
      {"then the older", {{"a", {}}, {"b", {}}}, {1, 1}, {1, 1}, 0},
  };
  for (const OrderCase& c : cases) {
    QueueTree tree = tree_of(c.rows);
    for (size_t i = 0; i < 2; ++i) {
      tree.add_request(i, Resources::gpus(20));
      tree.add_allocated(i, Resources::gpus(c.held[i]), true);
    }
    tree.update_shares(Resources::gpus(10), OverCommit::Proportional);
    const Candidate a{0, Resources::gpus(c.asked[0])};
    const Candidate b{1, Resources::gpus(c.asked[1])};
    EXPECT_EQ(is_served_before(tree, a, b), c.first == 0) << c.rule;
    EXPECT_EQ(is_served_before(tree, b, a), c.first == 1) << c.rule;
  }
}

}  // namespace
}  // namespace paceline::sched
