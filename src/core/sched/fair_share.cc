#include "core/sched/fair_share.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "base/check.h"
#include "core/sched/wide.h"

namespace paceline::sched {
namespace {

// A queue while something is being divided.
struct Portion {
  size_t index = 0;  // of its claim
  int64_t weight = 0;
  int64_t need = 0;  // what it would still take
  int64_t taken = 0;
  int64_t lost_ppb =
      0;  // of a unit, by rounding down in its last round; differences below do not count
};

using Bucket = std::vector<Portion>;
// Highest priority first.
using Buckets = std::map<int32_t, Bucket, std::greater<>>;

class Division {
 public:
  Division(const std::vector<ShareClaim>& claims, const ShareRule& rule)
      : claims_(claims), rule_(rule) {}

  // Steps 2 and 3; returns what nobody has taken.
  int64_t run(int64_t amount, Buckets& buckets) const {
    for (auto& [priority, bucket] : buckets)
      while (amount > 0 && run_round(amount, bucket)) {
      }
    for (auto& [priority, bucket] : buckets) hand_out_lost_units(amount, bucket);
    return amount;
  }

 private:
  // Weights of the queues of `bucket` that want something; 0 for the others.
  std::vector<Wide> effective_weights(const Bucket& bucket) const {
    Wide sum = 0;
    for (const Portion& portion : bucket) sum += portion.need > 0 ? portion.weight : 0;
    std::vector<Wide> result;
    result.reserve(bucket.size());
    for (const Portion& portion : bucket) {
      Wide weight = portion.need > 0 ? portion.weight : 0;
      if (weight > 0 && rule_.history_permille > 0) {
        // w/sum + k (w/sum - u), times sum * 10^9: k is in thousandths, u in millionths.
        const Wide k = rule_.history_permille;
        weight = weight * 1'000'000 * (1000 + k) - k * claims_[portion.index].past_use_ppm * sum;
      }
      result.push_back(std::max<Wide>(weight, 0));
    }
    return result;
  }

  // True if a further round may give more: somebody needed less than its portion.
  bool run_round(int64_t& amount, Bucket& bucket) const {
    const std::vector<Wide> weights = effective_weights(bucket);
    Wide sum = 0;
    for (const Wide weight : weights) sum += weight;
    if (sum == 0) return false;
    const Wide amount_at_start = amount;
    bool is_some_left_over = false;
    for (size_t i = 0; i < bucket.size(); ++i) {
      if (weights[i] == 0) continue;
      Portion& portion = bucket[i];
      const Wide product = amount_at_start * weights[i];  // portion x sum
      int64_t given = portion.need;
      portion.lost_ppb = 0;
      if (portion.need * sum <= product) {
        is_some_left_over |= portion.need * sum < product;
      } else {
        const Wide whole = sum * rule_.unit;
        given = static_cast<int64_t>(product / whole) * rule_.unit;
        portion.lost_ppb = static_cast<int64_t>(product % whole * 1'000'000'000 / whole);
      }
      portion.need -= given;
      portion.taken += given;
      amount -= given;
    }
    CHECK(amount >= 0, amount);
    return is_some_left_over;
  }

  void hand_out_lost_units(int64_t& amount, Bucket& bucket) const {
    std::vector<Portion*> losers;
    for (Portion& portion : bucket)
      if (portion.lost_ppb > 0 && portion.need > 0) losers.push_back(&portion);
    const auto comes_before = [this](const Portion* a, const Portion* b) {
      if (a->lost_ppb != b->lost_ppb) return a->lost_ppb > b->lost_ppb;
      const ShareClaim& left = claims_[a->index];
      const ShareClaim& right = claims_[b->index];
      return std::pair(left.created, left.id) < std::pair(right.created, right.id);
    };
    std::sort(losers.begin(), losers.end(), comes_before);
    for (Portion* loser : losers) {
      const int64_t given = std::min({amount, rule_.unit, loser->need});
      loser->taken += given;
      loser->need -= given;
      amount -= given;
    }
  }

  const std::vector<ShareClaim>& claims_;
  const ShareRule& rule_;
};

void check_claims(int64_t total, const std::vector<ShareClaim>& claims, const ShareRule& rule) {
  CHECK(total >= 0 && total < kUnlimited, total);
  CHECK(rule.unit > 0, rule.unit);
  CHECK(rule.history_permille >= 0 && rule.history_permille <= kMaxHistoryPermille);
  for (const ShareClaim& claim : claims) {
    CHECK(claim.quota >= 0 && claim.limit >= 0 && claim.request >= 0, "queue ", claim.id);
    CHECK(claim.weight >= 0 && claim.weight <= kMaxShareWeight, "queue ", claim.id);
  }
}

int64_t capped_request(const ShareClaim& claim) { return std::min(claim.request, claim.limit); }

// The total does not cover the quotas in use: quota is the weight, and quota in use the need.
std::vector<int64_t> divide_short(int64_t total, const std::vector<ShareClaim>& claims,
                                  const ShareRule& rule) {
  Buckets buckets;
  for (size_t i = 0; i < claims.size(); ++i) {
    const int64_t quota = std::min(claims[i].quota, total);
    const int64_t wanted = std::min(quota, capped_request(claims[i]));
    const int32_t priority = rule.over_commit == OverCommit::Priority ? claims[i].priority : 0;
    buckets[priority].push_back(Portion{.index = i, .weight = quota, .need = wanted});
  }
  const ShareRule plain{.unit = rule.unit};
  Division(claims, plain).run(total, buckets);
  std::vector<int64_t> shares(claims.size());
  for (const auto& [priority, bucket] : buckets)
    for (const Portion& portion : bucket) shares[portion.index] = portion.taken;
  return shares;
}

}  // namespace

std::vector<int64_t> divide(int64_t total, const std::vector<ShareClaim>& claims,
                            const ShareRule& rule) {
  check_claims(total, claims, rule);
  std::vector<int64_t> shares(claims.size());
  int64_t left = total;
  Buckets buckets;
  for (size_t i = 0; i < claims.size(); ++i) {
    const ShareClaim& claim = claims[i];
    const int64_t quota = claim.quota >= kUnlimited ? total : claim.quota;
    shares[i] = std::min(quota, capped_request(claim));
    left -= shares[i];
    buckets[claim.priority].push_back(
        Portion{.index = i, .weight = claim.weight, .need = capped_request(claim) - shares[i]});
  }
  if (left < 0 && rule.over_commit != OverCommit::AsQuota) return divide_short(total, claims, rule);
  if (left <= 0) return shares;
  Division(claims, rule).run(left, buckets);
  for (const auto& [priority, bucket] : buckets)
    for (const Portion& portion : bucket) shares[portion.index] += portion.taken;
  return shares;
}

}  // namespace paceline::sched
