// Goal: shares are those of KAI (F1 to F11), never exceed what there is, and do not depend on
// order. Method: the vectors by hand, and random claims (seed printed, and taken back from
// PACELINE_TEST_SEED).
#include "core/sched/fair_share.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <numeric>

#include "base/rng.h"
#include "core/sched/queue_tree.h"

namespace paceline::sched {
namespace {

uint64_t test_seed() {
  const char* text = std::getenv("PACELINE_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 20171002;
  std::cout << "PACELINE_TEST_SEED=" << seed << "\n";
  return seed;
}

// A queue of a vector, in whole GPUs.
struct Row {
  double quota = 0;
  int64_t weight = 1;
  double request = 0;
  int32_t priority = 0;
  double limit = -1;
  int64_t past_use_ppm = 0;
};

int64_t milli(double gpus) { return static_cast<int64_t>(gpus * 1000); }

std::vector<ShareClaim> claims_of(const std::vector<Row>& rows) {
  std::vector<ShareClaim> claims;
  for (const Row& row : rows) {
    const auto index = static_cast<uint32_t>(claims.size());
    claims.push_back(ShareClaim{.id = QueueId(index),
                                .quota = milli(row.quota),
                                .weight = row.weight,
                                .limit = row.limit < 0 ? kUnlimited : milli(row.limit),
                                .request = milli(row.request),
                                .priority = row.priority,
                                .created = index,
                                .past_use_ppm = row.past_use_ppm});
  }
  return claims;
}

struct Vector {
  const char* name;
  int64_t total;
  std::vector<Row> rows;
  std::vector<double> shares;
  ShareRule rule = {.over_commit = OverCommit::AsQuota};
};

TEST(FairShare, VectorsOfKai_AreExact) {
  const ShareRule with_history{.over_commit = OverCommit::AsQuota, .history_permille = 1000};
  const std::vector<Vector> vectors = {
      {"F1", 10, {{3, 2, 10, 2}, {3, 1, 10, 2}, {1, 1, 10, 1}}, {5, 4, 1}},
      {"F2", 5, {{1, 1, 1, 2}, {1, 2, 3, 1}, {0, 1, 2, 1}}, {1, 3, 1}},
      {"F3", 10, {{0, 1, 10}, {0, 1, 10}, {0, 1, 10}}, {4, 3, 3}},
      {"F4", 16, {{0, 1, 16, 0, -1, 500'000}, {0, 1, 16}}, {5, 11}, with_history},
      {"F5", 10, {{4, 1, 10, 0, 6}, {0, 1, 10}}, {6, 4}},
      {"F6", 8, {{8, 1, 8}, {8, 1, 8}}, {8, 8}},
      {"F7", 10, {{2, 1, 10, 2}, {2, 100, 10, 1}}, {8, 2}},
      {"F8", 10, {{2, 0, 10}, {2, 1, 4}}, {2, 4}},
      {"F9", 8, {{2, 1, 8}, {2, 1, 4}}, {4, 4}},
      {"F10", 10, {{0, 3, 0.5}, {0, 1, 10}}, {0.5, 9.5}},
  };
  for (const Vector& vector : vectors) {
    const std::vector<int64_t> shares =
        divide(milli(static_cast<double>(vector.total)), claims_of(vector.rows), vector.rule);
    for (size_t i = 0; i < shares.size(); ++i)
      EXPECT_EQ(shares[i], milli(vector.shares[i])) << vector.name << " queue " << i;
  }
}

QueueSpec queue(uint32_t id, const char* name, std::optional<uint32_t> parent, int64_t quota) {
  QueueSpec spec{.id = QueueId(id), .name = name, .quota = Resources::gpus(quota), .created = id};
  if (parent) spec.parent = QueueId(*parent);
  return spec;
}

TEST(FairShare, F11_TwoLevels_ChildrenDivideWhatTheParentHas) {
  QueueTree tree =
      *QueueTree::make({queue(4, "Y1", 3, 0), queue(3, "Y", {}, 8), queue(1, "X1", 0, 4),
                        queue(0, "X", {}, 8), queue(2, "X2", 0, 4)});
  tree.add_request(*tree.find("X1"), Resources::gpus(10));
  tree.add_request(*tree.find("X2"), Resources::gpus(2));
  tree.add_request(*tree.find("Y1"), Resources::gpus(4));
  tree.update_shares(Resources::gpus(16), OverCommit::AsQuota);
  const std::vector<std::pair<const char*, int64_t>> expected = {
      {"X", 12}, {"Y", 4}, {"X1", 10}, {"X2", 2}, {"Y1", 4}};
  for (const auto& [name, gpus] : expected)
    EXPECT_EQ(tree[*tree.find(name)].share, Resources::gpus(gpus)) << name;
}

TEST(FairShare, S9_QuotasExceedCapacity_SharesAreScaledOrByPriority) {
  const std::vector<ShareClaim> claims = claims_of({{8, 1, 8, 2}, {8, 1, 8, 1}});
  EXPECT_EQ(divide(8000, claims, {.over_commit = OverCommit::Proportional}),
            (std::vector<int64_t>{4000, 4000}));
  EXPECT_EQ(divide(8000, claims, {.over_commit = OverCommit::Priority}),
            (std::vector<int64_t>{8000, 0}));
}

TEST(FairShare, QuotasExceedCapacity_WhoWantsLessThanItsPartLeavesTheRestToOthers) {
  const std::vector<ShareClaim> claims = claims_of({{8, 1, 1}, {8, 1, 8}, {8, 1, 8}});
  EXPECT_EQ(divide(9000, claims, ShareRule{}), (std::vector<int64_t>{1000, 4000, 4000}));
}

TEST(FairShare, F6_InOurDefault_IsScaled) {
  EXPECT_EQ(divide(8000, claims_of({{8, 1, 8}, {8, 1, 8}}), ShareRule{}),
            (std::vector<int64_t>{4000, 4000}));
}

std::vector<ShareClaim> random_claims(Rng& rng) {
  std::vector<ShareClaim> claims;
  const auto count = static_cast<uint32_t>(rng.between(1, 12));
  for (uint32_t i = 0; i < count; ++i) {
    claims.push_back(
        ShareClaim{.id = QueueId(i),
                   .quota = rng.between(0, 20) * 500,
                   .weight = rng.between(0, 5),
                   .limit = rng.chance_ppm(300'000) ? rng.between(0, 30) * 500 : kUnlimited,
                   .request = rng.between(0, 60) * 250,
                   .priority = static_cast<int32_t>(rng.between(0, 2)),
                   .created = rng.between(0, 3),
                   .past_use_ppm = rng.between(0, 1'000'000)});
  }
  return claims;
}

ShareRule random_rule(Rng& rng) {
  return ShareRule{
      .over_commit = rng.chance_ppm(500'000) ? OverCommit::Proportional : OverCommit::Priority,
      .history_permille = rng.chance_ppm(300'000) ? rng.between(0, 3000) : 0};
}

// Everything that must hold of any division; empty if it does.
std::string violation(int64_t total, const std::vector<ShareClaim>& claims, const ShareRule& rule,
                      const std::vector<int64_t>& shares) {
  int64_t sum = 0, quota_in_use = 0, unmet = 0;
  for (size_t i = 0; i < claims.size(); ++i) {
    const int64_t wanted = std::min(claims[i].request, claims[i].limit);
    if (shares[i] < 0 || shares[i] > wanted)
      return str("queue ", i, " has ", shares[i], " of ", wanted);
    sum += shares[i];
    quota_in_use += std::min(wanted, claims[i].quota);
    if (claims[i].weight > 0) unmet += wanted - shares[i];
  }
  if (sum > total) return str("shares add up to ", sum, " of ", total);
  if (quota_in_use <= total)
    for (size_t i = 0; i < claims.size(); ++i)
      if (shares[i] < std::min({claims[i].quota, claims[i].request, claims[i].limit}))
        return str("queue ", i, " has less than its quota");
  if (rule.history_permille == 0 && unmet > 0 && sum < total && total - sum >= kMilli)
    return str("a unit is left although ", unmet, " are wanted");
  return "";
}

TEST(FairShare, RandomClaims_KeepTheInvariantsInAnyOrder) {
  const uint64_t seed = test_seed();
  Rng rng(seed);
  for (int round = 0; round < 20'000; ++round) {
    const std::vector<ShareClaim> claims = random_claims(rng);
    const ShareRule rule = random_rule(rng);
    const int64_t total = rng.between(0, 200) * 250;
    const std::vector<int64_t> shares = divide(total, claims, rule);
    ASSERT_EQ(violation(total, claims, rule, shares), "") << "round " << round;

    std::vector<size_t> order(claims.size());
    std::iota(order.begin(), order.end(), size_t{0});
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
    std::vector<ShareClaim> shuffled;
    for (const size_t i : order) shuffled.push_back(claims[i]);
    const std::vector<int64_t> again = divide(total, shuffled, rule);
    for (size_t i = 0; i < order.size(); ++i)
      ASSERT_EQ(again[i], shares[order[i]])
          << "round " << round << "; repeat with PACELINE_TEST_SEED=" << seed;
  }
}

}  // namespace
}  // namespace paceline::sched
