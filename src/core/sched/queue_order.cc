#include "core/sched/queue_order.h"

#include <algorithm>
#include <tuple>

#include "core/sched/wide.h"

namespace paceline::sched {
namespace {

// What counts as a queue's due: dividing by it says how much of its due a queue holds.
int64_t due(const Queue& queue, size_t resource) {
  return std::min(std::max(queue.spec.quota[resource], queue.share[resource]),
                  queue.spec.limit[resource]);
}

bool is_above_share_in_all(const QueueTree& tree, const Queue& queue) {
  for (size_t i = 0; i < kMaxResources; ++i)
    if (tree.is_counted(i) && queue.allocated[i] <= queue.share[i]) return false;
  return true;
}

bool is_within_quota(const QueueTree& tree, const Queue& queue, const Resources& held) {
  for (size_t i = 0; i < kMaxResources; ++i)
    if (tree.is_counted(i) && held[i] > queue.spec.quota[i]) return false;
  return true;
}

bool uses_without_share(const QueueTree& tree, const Queue& queue, const Resources& held) {
  for (size_t i = 0; i < kMaxResources; ++i)
    if (tree.is_counted(i) && held[i] > 0 && queue.share[i] == 0) return true;
  return false;
}

// Use of what a queue has no share of weighs as much as this many units of a share of one unit.
constexpr int64_t kWeightWithoutShare = 1000;

}  // namespace

std::strong_ordering Ratio::operator<=>(const Ratio& other) const {
  const Wide left = static_cast<Wide>(numerator) * other.denominator;
  const Wide right = static_cast<Wide>(other.numerator) * denominator;
  if (left == right) return std::strong_ordering::equal;
  return left < right ? std::strong_ordering::less : std::strong_ordering::greater;
}

Ratio dominant_share(const QueueTree& tree, const Queue& queue, const Resources& allocated) {
  Ratio largest;
  for (size_t i = 0; i < kMaxResources; ++i) {
    if (!tree.is_counted(i) || allocated[i] <= 0) continue;
    const int64_t base = due(queue, i);
    const Ratio ratio = base > 0
                            ? Ratio{allocated[i], base}
                            : Ratio{allocated[i] * kWeightWithoutShare, i == kGpu ? kMilli : 1};
    largest = std::max(largest, ratio);
  }
  return largest;
}

bool is_served_before(const QueueTree& tree, const Candidate& a, const Candidate& b) {
  const Queue& left = tree[a.queue];
  const Queue& right = tree[b.queue];
  const Resources left_after = left.allocated + a.amount;
  const Resources right_after = right.allocated + b.amount;

  const auto rank_by_claim = [&tree](const Queue& queue, const Resources& after) {
    return std::tuple(is_above_share_in_all(tree, queue), !is_within_quota(tree, queue, after),
                      -int64_t{queue.spec.priority}, uses_without_share(tree, queue, after));
  };
  const auto left_claim = rank_by_claim(left, left_after);
  const auto right_claim = rank_by_claim(right, right_after);
  if (left_claim != right_claim) return left_claim < right_claim;

  const auto with_job =
      dominant_share(tree, left, left_after) <=> dominant_share(tree, right, right_after);
  if (with_job != 0) return with_job < 0;
  const auto without =
      dominant_share(tree, left, left.allocated) <=> dominant_share(tree, right, right.allocated);
  if (without != 0) return without < 0;
  return std::tie(left.share, left.spec.created, left.spec.id) <
         std::tie(right.share, right.spec.created, right.spec.id);
}

}  // namespace paceline::sched
