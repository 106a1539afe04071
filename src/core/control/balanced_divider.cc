#include "core/control/balanced_divider.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "base/check.h"

namespace paceline::control {
namespace {

constexpr int64_t kUnknownCost =
    1'000'000;  // any positive number: all are equal when none is known

struct Finish {
  int64_t at = 0;  // when the member would be done with one more
  MemberIndex member = 0;
  bool operator>(const Finish& other) const {
    return std::pair(at, member) > std::pair(other.at, other.member);
  }
};

}  // namespace

std::vector<MemberIndex> BalancedDivider::regular(const std::vector<Member>& members,
                                                  uint32_t micro_batches) const {
  return divide(members, workers_of(members), std::vector<bool>(micro_batches),
                std::vector<uint32_t>(members.size()));
}

std::vector<MemberIndex> BalancedDivider::lost(const std::vector<Member>& members,
                                               const std::vector<bool>& is_held,
                                               const std::vector<uint32_t>& held_counts) const {
  std::vector<MemberIndex> all;
  for (size_t i = 0; i < members.size(); ++i) all.push_back(static_cast<MemberIndex>(i));
  return divide(members, all, is_held, held_counts);
}

std::vector<MemberIndex> BalancedDivider::workers_of(const std::vector<Member>& members) const {
  std::vector<MemberIndex> order;
  for (size_t i = 0; i < members.size(); ++i) order.push_back(static_cast<MemberIndex>(i));
  std::stable_sort(order.begin(), order.end(), [&](MemberIndex a, MemberIndex b) {
    const auto key = [&](MemberIndex i) {
      return std::pair(standby_.contains(members[i].rank), members[i].rank);
    };
    return key(a) < key(b);
  });
  if (workers_ != 0 && workers_ < order.size()) order.resize(workers_);
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<MemberIndex> BalancedDivider::divide(const std::vector<Member>& members,
                                                 const std::vector<MemberIndex>& workers,
                                                 const std::vector<bool>& is_given,
                                                 std::vector<uint32_t> counts) const {
  CHECK(!members.empty() && members.size() == counts.size());
  const std::vector<int64_t> cost = costs_of(members);
  std::priority_queue<Finish, std::vector<Finish>, std::greater<>> next;
  for (const MemberIndex i : workers) next.push({(counts[i] + 1) * cost[i], i});
  std::vector<MemberIndex> owner(is_given.size(), kNoMember);
  for (size_t m = 0; m < is_given.size(); ++m) {
    if (is_given[m]) continue;
    const MemberIndex i = next.top().member;
    next.pop();
    owner[m] = i;
    ++counts[i];
    next.push({(counts[i] + 1) * cost[i], i});
  }
  return owner;
}

std::vector<int64_t> BalancedDivider::costs_of(const std::vector<Member>& members) const {
  std::vector<int64_t> known;
  for (const Member& member : members)
    if (const auto found = cost_ns_.find(member.rank); found != cost_ns_.end())
      known.push_back(found->second);
  int64_t median = kUnknownCost;
  if (!known.empty()) {
    std::nth_element(known.begin(), known.begin() + static_cast<ptrdiff_t>(known.size() / 2),
                     known.end());
    median = known[known.size() / 2];
  }
  std::vector<int64_t> cost;
  for (const Member& member : members) {
    const auto found = cost_ns_.find(member.rank);
    cost.push_back(std::max<int64_t>(1, found == cost_ns_.end() ? median : found->second));
  }
  return cost;
}

int64_t makespan_ns(const std::vector<Member>& members, const std::vector<MemberIndex>& owner,
                    const std::map<RankId, int64_t>& cost_ns) {
  std::vector<int64_t> busy(members.size());
  for (const MemberIndex i : owner) {
    if (i == kNoMember) continue;
    const auto found = cost_ns.find(members[i].rank);
    if (found != cost_ns.end()) busy[i] += found->second;
  }
  return *std::max_element(busy.begin(), busy.end());
}

}  // namespace paceline::control
