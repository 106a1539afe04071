#include "live/fault/ring_probe.h"

#include <cstddef>

#include "base/str.h"
#include "live/fault/memory_of.h"
#include "live/wire/memory_label.h"

namespace paceline::fault {
namespace {

// What the ring begins with.
struct Head {
  uint32_t magic;
  uint32_t version;
};

}  // namespace

Result<RingProbe> RingProbe::open(pid_t process) {
  for (const Mapping& mapping : memfds_of(process, wire::kRingLabel)) {
    Head head{};
    if (mapping.size_bytes >= sizeof(wire::RankRing) &&
        read_memory(process, mapping.begin, &head, sizeof head) && head.magic == wire::kRingMagic &&
        head.version == wire::kRingVersion)
      return RingProbe(process, mapping.begin);
  }
  return Failure{ErrorCode::Unavailable, str("process ", process, " has no ring")};
}

RankGlance RingProbe::glance() {
  wire::RankNow now{};
  if (!read_memory(process_, ring_ + offsetof(wire::RankRing, now), &now, sizeof now)) {
    last_.has_ended = true;
    return last_;
  }
  // Each field is a fact of its own: nothing here needs them to be of the same moment.
  constexpr auto kRelaxed = std::memory_order_relaxed;
  last_ = {.step = now.step.load(kRelaxed),
           .phase = static_cast<RankPhase>(now.phase.load(kRelaxed)),
           .micro_batch = now.micro_batch.load(kRelaxed),
           .is_reducing = now.reducing.load(kRelaxed) != 0,
           .has_voted = now.has_voted.load(kRelaxed) != 0,
           .main_thread = static_cast<pid_t>(now.main_thread.load(kRelaxed))};
  return last_;
}

}  // namespace paceline::fault
