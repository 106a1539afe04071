// Epoch: one membership of a job, with the work of each member, as the controller issues it.
//
// A planned epoch is announced in the background and entered at a commit at which all votes carry
// its number. An emergency epoch is decided from the reports to a Prepare; it says at which turn
// its members stand and who computes what nobody holds of that turn.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/hash.h"
#include "core/model/ids.h"
#include "core/model/micro_batch.h"

namespace paceline {

// Where a rank listens for its peers. IPv4, host byte order.
struct Endpoint {
  uint32_t address = 0;
  uint16_t port = 0;
  auto operator<=>(const Endpoint&) const = default;
};

struct Member {
  RankId rank;
  HostId host;
  Endpoint endpoint;
  auto operator<=>(const Member&) const = default;
};

// Index of a member in Epoch::members; also its place in the ring.
using MemberIndex = uint16_t;
inline constexpr MemberIndex kNoMember = 0xffff;

enum class EpochKind : uint8_t { Planned, Emergency };

// A micro-batch that nobody computes: poison, left out at the user's wish.
struct Skipped {
  Step step;
  MicroBatch micro_batch;
  auto operator<=>(const Skipped&) const = default;
};
// Of one job. A program that needs more has another fault.
inline constexpr size_t kMaxSkipped = 64;

struct Epoch {
  EpochNumber number;
  EpochKind kind = EpochKind::Emergency;
  std::vector<Member> members;
  // owner[m] computes micro-batch m of every step begun in this epoch. Size V. A member may own
  // none.
  std::vector<MemberIndex> owner;
  // Ends the job in order: its members begin no step in it, and if they enter it by a decision they
  // give up the step that is open.
  bool is_last = false;
  // Of the running step, and of later ones if they are known: ascending. Its tag is not in any sum.
  std::vector<Skipped> skipped = {};

  // Emergency only. The turn that the members stand at when they enter: all have committed exactly
  // `target` turns.
  Turn target;
  // Of turn `target` alone: who computes micro-batch m again, kNoMember where a member holds it.
  // Empty for planned epochs.
  std::vector<MemberIndex> lost_owner;

  bool operator==(const Epoch&) const = default;

  uint32_t micro_batches() const { return static_cast<uint32_t>(owner.size()); }

  std::optional<MemberIndex> index_of(RankId rank) const {
    for (size_t i = 0; i < members.size(); ++i)
      if (members[i].rank == rank) return static_cast<MemberIndex>(i);
    return std::nullopt;
  }
  bool has(RankId rank) const { return index_of(rank).has_value(); }
  bool skips(Step step, MicroBatch m) const {
    return std::find(skipped.begin(), skipped.end(), Skipped{step, m}) != skipped.end();
  }
  // What the skipped micro-batches would have added to the tag of a sum of `step`.
  uint64_t skipped_tag(uint64_t job_seed, Step step) const {
    uint64_t sum = 0;
    for (const Skipped& each : skipped)
      if (each.step == step) sum += micro_batch_tag(job_seed, step, each.micro_batch);
    return sum;
  }

  // All that decides what its members do. The number alone does not: until it is journaled, one
  // number can become any of several decisions.
  void add_to(Digest& digest) const {
    digest.add(number.value()).add(static_cast<uint8_t>(kind)).add(is_last).add(target.value());
    digest.add(members.size());
    for (const Member& member : members)
      digest.add(member.rank.slot.value()).add(member.rank.incarnation.value());
    digest.add(owner.size());
    for (const MemberIndex index : owner) digest.add(index);
    digest.add(lost_owner.size());
    for (const MemberIndex index : lost_owner) digest.add(index);
    digest.add(skipped.size());
    for (const Skipped& each : skipped) digest.add(each.step.value()).add(each.micro_batch.value());
  }
};

}  // namespace paceline
