#include "core/sched/queue_tree.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace paceline::sched {
namespace {

int64_t unit_of(size_t resource) { return resource == kGpu ? kMilli : 1; }

}  // namespace

Result<QueueTree> QueueTree::make(std::vector<QueueSpec> specs) {
  std::sort(specs.begin(), specs.end(),
            [](const QueueSpec& a, const QueueSpec& b) { return a.id < b.id; });
  QueueTree tree;
  std::set<std::string> names;
  for (QueueSpec& spec : specs) {
    if (!names.insert(spec.name).second)
      return Failure{ErrorCode::InvalidArgument, str("queue ", spec.name, " is there twice")};
    if (!tree.queues_.empty() && tree.queues_.back().spec.id == spec.id)
      return Failure{ErrorCode::InvalidArgument, str("queue id ", spec.id, " is there twice")};
    Queue& queue = tree.queues_.emplace_back();
    queue.spec = std::move(spec);
  }
  TRY(tree.link());
  tree.find_counted();
  return tree;
}

Status QueueTree::link() {
  for (size_t i = 0; i < queues_.size(); ++i) {
    Queue& queue = queues_[i];
    if (!queue.spec.parent) {
      roots_.push_back(i);
      continue;
    }
    queue.parent = find(*queue.spec.parent);
    if (!queue.parent)
      return Failure{ErrorCode::InvalidArgument,
                     str("queue ", queue.spec.name, " has no parent ", *queue.spec.parent)};
    queues_[*queue.parent].children.push_back(i);
  }
  for (Queue& queue : queues_) {
    for (std::optional<size_t> up = queue.parent; up; up = queues_[*up].parent) {
      if (++queue.depth < kMaxDepth) continue;
      return Failure{
          ErrorCode::InvalidArgument,
          str("queue ", queue.spec.name, " is its own ancestor, or deeper than ", kMaxDepth)};
    }
  }
  return {};
}

void QueueTree::find_counted() {
  is_counted_[kGpu] = true;
  for (const Queue& queue : queues_)
    for (size_t i = 0; i < kMaxResources; ++i)
      is_counted_[i] |= queue.spec.quota[i] > 0 || queue.spec.limit[i] < kUnlimited;
}

std::optional<size_t> QueueTree::find(QueueId id) const {
  const auto found =
      std::lower_bound(queues_.begin(), queues_.end(), id,
                       [](const Queue& queue, QueueId wanted) { return queue.spec.id < wanted; });
  if (found == queues_.end() || found->spec.id != id) return std::nullopt;
  return static_cast<size_t>(found - queues_.begin());
}

std::optional<size_t> QueueTree::find(std::string_view name) const {
  for (size_t i = 0; i < queues_.size(); ++i)
    if (queues_[i].spec.name == name) return i;
  return std::nullopt;
}

void QueueTree::add_request(size_t leaf, const Resources& amount) {
  for (std::optional<size_t> up = leaf; up; up = queues_[*up].parent)
    queues_[*up].request += amount;
}

void QueueTree::add_allocated(size_t leaf, const Resources& amount, bool is_preemptible) {
  for (std::optional<size_t> up = leaf; up; up = queues_[*up].parent) {
    Queue& queue = queues_[*up];
    queue.allocated += amount;
    if (!is_preemptible) queue.allocated_non_preemptible += amount;
    CHECK(Resources().fits_in(queue.allocated), "queue ", queue.spec.name,
          " holds less than nothing");
  }
}

void QueueTree::update_shares(const Resources& total, OverCommit over_commit) {
  divide_level(roots_, total, over_commit);
  std::vector<size_t> open = roots_;
  for (size_t next = 0; next < open.size(); ++next) {
    const Queue& queue = queues_[open[next]];
    divide_level(queue.children, queue.share, over_commit);
    open.insert(open.end(), queue.children.begin(), queue.children.end());
  }
}

void QueueTree::divide_level(std::span<const size_t> level, const Resources& total,
                             OverCommit over_commit) {
  if (level.empty()) return;
  std::vector<ShareClaim> claims(level.size());
  for (size_t resource = 0; resource < kMaxResources; ++resource) {
    for (size_t i = 0; i < level.size(); ++i) {
      const Queue& queue = queues_[level[i]];
      claims[i] = ShareClaim{.id = queue.spec.id,
                             .quota = queue.spec.quota[resource],
                             .weight = queue.spec.weight[resource],
                             .limit = queue.spec.limit[resource],
                             .request = queue.request[resource],
                             .priority = queue.spec.priority,
                             .created = queue.spec.created};
    }
    const ShareRule rule{.unit = unit_of(resource), .over_commit = over_commit};
    const std::vector<int64_t> shares =
        is_counted_[resource] ? divide(total[resource], claims, rule) : std::vector<int64_t>();
    for (size_t i = 0; i < level.size(); ++i)
      queues_[level[i]].share[resource] = is_counted_[resource] ? shares[i] : total[resource];
  }
}

std::optional<LimitBreach> QueueTree::breach(size_t leaf, const Resources& amount,
                                             bool is_preemptible) const {
  return breach_from(Base::Held, leaf, amount, is_preemptible);
}

std::optional<LimitBreach> QueueTree::breach_when_idle(size_t leaf, const Resources& amount,
                                                       bool is_preemptible) const {
  return breach_from(Base::Idle, leaf, amount, is_preemptible);
}

std::optional<LimitBreach> QueueTree::breach_from(Base base, size_t leaf, const Resources& amount,
                                                  bool is_preemptible) const {
  for (std::optional<size_t> up = leaf; up; up = queues_[*up].parent) {
    const Queue& queue = queues_[*up];
    for (size_t i = 0; i < kMaxResources; ++i) {
      if (amount[i] == 0)
        continue;  // a queue above its lowered limit still takes what does not add to it
      const int64_t held = base == Base::Held ? queue.allocated[i] : 0;
      if (held + amount[i] > queue.spec.limit[i])
        return LimitBreach{
            .queue = *up, .resource = i, .limit = queue.spec.limit[i], .needed = held + amount[i]};
      if (is_preemptible || !is_counted_[i]) continue;
      const int64_t fixed = base == Base::Held ? queue.allocated_non_preemptible[i] : 0;
      if (fixed + amount[i] > queue.spec.quota[i])
        return LimitBreach{.queue = *up,
                           .resource = i,
                           .limit = queue.spec.quota[i],
                           .needed = fixed + amount[i],
                           .is_quota = true};
    }
  }
  return std::nullopt;
}

uint64_t QueueTree::hash() const {
  Digest digest;
  for (const Queue& queue : queues_)
    for (size_t i = 0; i < kMaxResources; ++i)
      digest.add(queue.allocated[i]).add(queue.allocated_non_preemptible[i]);
  return digest.value();
}

}  // namespace paceline::sched
