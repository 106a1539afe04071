// QueueTree: who may use how much. Each queue has a quota, a limit, an over-quota weight and a
// priority; jobs are in the leaves, and what they hold and ask for counts in all queues above.
//
// Shares are divided level by level from the root: what a parent has is what its children divide
// (see fair_share.h). GPUs count, and what any queue states a quota or a limit of.
//
// Invariant: `allocated` and `request` of a queue are the sums over the jobs below it.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "core/sched/fair_share.h"

namespace paceline::sched {

struct QueueSpec {
  QueueId id;
  std::string name = {};
  std::optional<QueueId> parent = {};
  Resources quota = {};
  Resources weight = Resources::all(1);  // of what is left after quotas
  Resources limit = Resources::all(kUnlimited);
  int32_t priority = 0;
  int64_t created = 0;  // the older queue has the lower number
};

struct Queue {
  QueueSpec spec;
  std::optional<size_t> parent;  // index
  std::vector<size_t> children;  // indexes, by id; empty: a leaf, where jobs are
  size_t depth = 0;
  Resources allocated;                  // held by running jobs
  Resources allocated_non_preemptible;  // of them
  Resources request;                    // held and asked for
  Resources share;                      // fair share; see QueueTree::update_shares
};

// A limit that a job would pass, or a quota that it may not leave.
struct LimitBreach {
  size_t queue = 0;  // index
  size_t resource = 0;
  int64_t limit = 0;
  int64_t needed = 0;     // with the job
  bool is_quota = false;  // work that cannot be preempted stays within quota
};

class QueueTree {
 public:
  // Queues may be given in any order. Refuses a second queue of an id or name, a parent that is not
  // there, circles, and trees deeper than kMaxDepth.
  static Result<QueueTree> make(std::vector<QueueSpec> specs);
  static constexpr size_t kMaxDepth = 16;

  size_t size() const { return queues_.size(); }
  const Queue& operator[](size_t index) const { return queues_[index]; }
  const std::vector<size_t>& roots() const { return roots_; }
  std::optional<size_t> find(QueueId id) const;
  std::optional<size_t> find(std::string_view name) const;
  bool is_counted(size_t resource) const { return is_counted_[resource]; }

  // A pending or running job comes to or leaves (negative amounts) a leaf.
  void add_request(size_t leaf, const Resources& amount);
  // It starts or ends (negative amounts).
  void add_allocated(size_t leaf, const Resources& amount, bool is_preemptible);

  // Divides `total` anew. Cost: that of divide() for each level and resource.
  void update_shares(const Resources& total, OverCommit over_commit);

  // The lowest queue, from `leaf` up, and its first resource that does not allow `amount` more.
  std::optional<LimitBreach> breach(size_t leaf, const Resources& amount,
                                    bool is_preemptible) const;
  // The same if nothing were running: a job that breaks this can never start.
  std::optional<LimitBreach> breach_when_idle(size_t leaf, const Resources& amount,
                                              bool is_preemptible) const;

  // Of allocations, for comparing states.
  uint64_t hash() const;

 private:
  enum class Base : uint8_t { Held, Idle };

  std::optional<LimitBreach> breach_from(Base base, size_t leaf, const Resources& amount,
                                         bool is_preemptible) const;
  Status link();
  void find_counted();
  void divide_level(std::span<const size_t> level, const Resources& total, OverCommit over_commit);

  std::vector<Queue> queues_;  // by id
  std::vector<size_t> roots_;
  std::array<bool, kMaxResources> is_counted_{};
};

}  // namespace paceline::sched
