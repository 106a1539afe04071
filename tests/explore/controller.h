// The explored controller: the real Membership and what its driver knows of losses. A journal is a
// Membership that has taken the records by restore() and nothing else: what a restart would build.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "config.h"
#include "core/control/membership.h"
#include "message.h"

namespace paceline::explore {

// What an event made the controller do, seen from outside.
struct ControllerSteps {
  std::vector<MembershipRecord> records;
  std::vector<std::pair<size_t, Message>> to_ranks;
  bool has_decided = false;
};

// Divides as the protocol needs it tested: in turn, a spare (D beside three others) gets nothing.
class Divider final : public control::WorkDivider {
 public:
  explicit Divider(bool has_spare) : has_spare_(has_spare) {}
  std::vector<MemberIndex> regular(const std::vector<Member>& members,
                                   uint32_t micro_batches) const override;
  std::vector<MemberIndex> lost(const std::vector<Member>& members,
                                const std::vector<bool>& is_held,
                                const std::vector<uint32_t>& held_counts) const override;

 private:
  std::vector<MemberIndex> workers(const std::vector<Member>& members) const;
  bool has_spare_;
};

class Controller {
 public:
  explicit Controller(const Divider& divider) : membership_(kMicroBatches, divider) {}

  // --- Events ---
  ControllerSteps start(size_t ranks);
  ControllerSteps take(size_t from, const Message& message);
  ControllerSteps lost(size_t rank, control::Loss loss);
  ControllerSteps seen_again(size_t rank);
  ControllerSteps repeat(size_t rank);
  ControllerSteps reform();
  ControllerSteps announce(Plan plan);
  // --- Journal ---
  void append(const std::vector<MembershipRecord>& records);
  ControllerSteps restart();

  const control::Membership& membership() const { return membership_; }
  std::optional<control::Loss> known_loss(size_t rank) const { return known_[rank]; }
  bool is_unanswered(size_t rank) const;

  uint64_t digest() const;

 private:
  ControllerSteps settle();
  control::Membership membership_;
  std::array<std::optional<control::Loss>, kRanks> known_{};
};

}  // namespace paceline::explore
