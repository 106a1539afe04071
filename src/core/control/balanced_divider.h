// BalancedDivider: who computes which micro-batch, so that the slowest member is done earliest.
//
// Every micro-batch costs a member the same, `cost` nanoseconds of its own; giving each in turn to
// the member that would finish it first is optimal for equal jobs on machines of unequal speed (the
// greedy rule; Dessouky et al. 1990). At most `workers` members get work, the others stand by as
// hot spares: standing-by ranks last, otherwise by slot. What is left of a step that has lost a
// rank goes to all, since everybody waits for its end. Ties go to the lower slot. Integers only.
//
// Pure. Cost O(V log V + n) per call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "core/control/membership.h"

namespace paceline::control {

class BalancedDivider final : public WorkDivider {
 public:
  // How many members may work; 0: all.
  void set_workers(uint32_t workers) { workers_ = workers; }
  // Measured cost of a micro-batch on each rank; ranks without an entry count as the median of the
  // rest.
  void set_costs(std::map<RankId, int64_t> cost_ns) { cost_ns_ = std::move(cost_ns); }
  // Ranks that stand by as long as enough others can work.
  void set_standby(std::set<RankId> standby) { standby_ = std::move(standby); }

  std::vector<MemberIndex> regular(const std::vector<Member>& members,
                                   uint32_t micro_batches) const override;
  std::vector<MemberIndex> lost(const std::vector<Member>& members,
                                const std::vector<bool>& is_held,
                                const std::vector<uint32_t>& held_counts) const override;

  // How many of so many members would work, and which, ascending.
  uint32_t worker_count(size_t members) const {
    return static_cast<uint32_t>(workers_ == 0 ? members : std::min<size_t>(workers_, members));
  }
  std::vector<MemberIndex> workers_of(const std::vector<Member>& members) const;

 private:
  std::vector<MemberIndex> divide(const std::vector<Member>& members,
                                  const std::vector<MemberIndex>& workers,
                                  const std::vector<bool>& is_given,
                                  std::vector<uint32_t> counts) const;
  std::vector<int64_t> costs_of(const std::vector<Member>& members) const;

  uint32_t workers_ = 0;
  std::map<RankId, int64_t> cost_ns_;
  std::set<RankId> standby_;
};

// Time until the slowest member is done, given the counts that `owner` implies.
int64_t makespan_ns(const std::vector<Member>& members, const std::vector<MemberIndex>& owner,
                    const std::map<RankId, int64_t>& cost_ns);

}  // namespace paceline::control
