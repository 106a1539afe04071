#include "controller.h"

#include <algorithm>

#include "base/check.h"
#include "rank.h"

namespace paceline::explore {
namespace {

std::vector<Member> members_of(const std::vector<size_t>& ranks) {
  std::vector<Member> members;
  for (const size_t r : ranks)
    members.push_back(
        {.rank = rank_id(r), .host = HostId(static_cast<uint32_t>(r)), .endpoint = {}});
  return members;
}

}  // namespace

// --- Division of work ---

std::vector<MemberIndex> Divider::workers(const std::vector<Member>& members) const {
  std::vector<MemberIndex> workers;
  for (size_t i = 0; i < members.size(); ++i) {
    const bool is_idle =
        has_spare_ && members.size() == kRanks && members[i].rank == rank_id(kRanks - 1);
    if (!is_idle) workers.push_back(static_cast<MemberIndex>(i));
  }
  return workers;
}

std::vector<MemberIndex> Divider::regular(const std::vector<Member>& members,
                                          uint32_t micro_batches) const {
  const std::vector<MemberIndex> who = workers(members);
  std::vector<MemberIndex> owner;
  for (uint32_t m = 0; m < micro_batches; ++m) owner.push_back(who[m % who.size()]);
  return owner;
}

std::vector<MemberIndex> Divider::lost(const std::vector<Member>& members,
                                       const std::vector<bool>& is_held,
                                       const std::vector<uint32_t>& held_counts) const {
  const std::vector<MemberIndex> who = workers(members);
  std::vector<uint32_t> load = held_counts;
  std::vector<MemberIndex> owner(is_held.size(), kNoMember);
  for (size_t m = 0; m < is_held.size(); ++m) {
    if (is_held[m]) continue;
    owner[m] = *std::min_element(who.begin(), who.end(),
                                 [&](auto a, auto b) { return load[a] < load[b]; });
    ++load[owner[m]];
  }
  return owner;
}

// --- Events ---

ControllerSteps Controller::start(size_t ranks) {
  std::vector<size_t> all;
  for (size_t r = 0; r < ranks; ++r) all.push_back(r);
  membership_.start(members_of(all));
  return settle();
}

ControllerSteps Controller::take(size_t from, const Message& message) {
  if (const auto* report = std::get_if<PrepareReport>(&message)) {
    membership_.report(rank_id(from), *report);
  } else if (const auto* entered = std::get_if<Entered>(&message)) {
    membership_.entered(rank_id(from), entered->epoch);
  } else {
    CHECK(std::holds_alternative<HasLeft>(message));
    if (membership_.may_be_in_force(rank_id(from))) known_[from] = control::Loss::Ended;
    membership_.left(rank_id(from));
  }
  return settle();
}

ControllerSteps Controller::lost(size_t rank, control::Loss loss) {
  known_[rank] = loss;
  membership_.lost(rank_id(rank), loss);
  return settle();
}

ControllerSteps Controller::seen_again(size_t rank) {
  known_[rank].reset();
  membership_.seen_again(rank_id(rank));
  return settle();
}

ControllerSteps Controller::repeat(size_t rank) {
  membership_.repeat(rank_id(rank));
  return settle();
}

ControllerSteps Controller::reform() {
  membership_.reform({});
  return settle();
}

ControllerSteps Controller::announce(Plan plan) {
  std::vector<size_t> ranks;
  for (const Member& member : membership_.base().members) {
    const size_t r = member.rank.slot.value();
    if (plan != Plan::Leave || r != 2) ranks.push_back(r);
  }
  if (plan == Plan::Join) ranks.push_back(kRanks - 1);
  const std::vector<Member> members = members_of(ranks);
  std::vector<MemberIndex> owner = Divider(false).regular(members, kMicroBatches);
  if (plan == Plan::Rebalance) {
    owner = membership_.base().owner;
    std::swap(owner.front(), owner.back());
  }
  membership_.announce({.members = members, .owner = std::move(owner), .is_last = false});
  return settle();
}

void Controller::append(const std::vector<MembershipRecord>& records) {
  for (const MembershipRecord& record : records) membership_.restore(record);
}

ControllerSteps Controller::restart() {
  membership_.resume();
  return settle();
}

ControllerSteps Controller::settle() {
  ControllerSteps steps;
  for (const control::MembershipEffect& effect : membership_.take_effects()) {
    if (const auto* record = std::get_if<MembershipRecord>(&effect)) {
      CHECK(steps.to_ranks.empty(), "a record after a send that may follow from it");
      steps.records.push_back(*record);
    } else if (const auto* sent = std::get_if<control::SendControl>(&effect)) {
      steps.to_ranks.push_back({sent->to.slot.value(), message_of(sent->message)});
    }
    steps.has_decided |= std::holds_alternative<control::Decided>(effect);
  }
  for (size_t r = 0; r < kRanks; ++r)
    if (!membership_.may_be_in_force(rank_id(r))) known_[r].reset();
  return steps;
}

bool Controller::is_unanswered(size_t rank) const {
  const std::vector<RankId> unanswered = membership_.unanswered();
  return std::find(unanswered.begin(), unanswered.end(), rank_id(rank)) != unanswered.end();
}

uint64_t Controller::digest() const {
  Digest d;
  membership_.add_to(d);
  for (const auto& loss : known_) d.add(loss.has_value()).add(loss ? static_cast<int>(*loss) : 0);
  return d.value();
}

}  // namespace paceline::explore
