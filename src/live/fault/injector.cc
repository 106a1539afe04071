#include "live/fault/injector.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/str.h"
#include "live/fault/hijack.h"
#include "live/fault/memory_of.h"
#include "live/os/clock.h"
#include "live/wire/memory_label.h"

namespace paceline::fault {
namespace {

constexpr Duration kNearPause = Duration::microseconds(200);
constexpr Duration kFarPause = Duration::milliseconds(5);
constexpr Duration kLoseHostDefault = Duration::seconds(10);
constexpr Duration kSlowDefault = Duration::seconds(10);
constexpr size_t kPageBytes = 4096;
constexpr Duration kTrapPause = Duration::microseconds(20);
constexpr uint64_t kNearSteps = 2;
// Two ranks that die of the same micro-batch make it poison; a third must not be needed.
constexpr size_t kPoisonStrikes = 3;

FaultPhase phase_of(const RankGlance& glance) {
  switch (glance.phase) {
    case RankPhase::Prepare:
      return FaultPhase::Prepare;
    case RankPhase::Heal:
      return FaultPhase::Heal;
    case RankPhase::Trial:
      return FaultPhase::Trial;
    case RankPhase::Compute:
      return FaultPhase::Compute;
    default:
      break;
  }
  if (glance.has_voted) return FaultPhase::Commit;
  return glance.is_reducing ? FaultPhase::Reduce : FaultPhase::Any;
}

// A rank may reduce one bucket while it computes the next: it is in both phases then.
bool is_in(FaultPhase phase, const RankGlance& glance) {
  switch (phase) {
    case FaultPhase::Any:
      return true;
    case FaultPhase::Compute:
      return glance.phase == RankPhase::Compute;
    case FaultPhase::Reduce:
      return glance.is_reducing && !glance.has_voted;
    case FaultPhase::Commit:
      return glance.has_voted;
    case FaultPhase::Prepare:
      return glance.phase == RankPhase::Prepare;
    case FaultPhase::Heal:
      return glance.phase == RankPhase::Heal;
    case FaultPhase::Trial:
      return glance.phase == RankPhase::Trial;
  }
  return false;
}

// A thread that is taken over should be in the program's code, not inside a call of the library.
FaultPhase wanted_phase(const FaultSpec& spec) {
  const bool is_taken_over = spec.kind == FaultKind::Hang || spec.kind == FaultKind::Spin;
  return is_taken_over && spec.phase == FaultPhase::Any ? FaultPhase::Compute : spec.phase;
}

// A joiner has no step of its own before it is level. What is asked of the program is asked a step
// ahead.
bool is_at_step(const FaultSpec& spec, const RankGlance& glance) {
  if (glance.phase == RankPhase::Heal) return spec.phase == FaultPhase::Heal;
  if (glance.phase == RankPhase::Trial) return spec.phase == FaultPhase::Trial;
  return glance.phase != RankPhase::Starting && glance.phase != RankPhase::Done &&
         glance.step + (spec.kind == FaultKind::Skip ? 1 : 0) >= spec.step;
}

bool flip_bit(pid_t process, uintptr_t address) {
  uint8_t byte = 0;
  if (!read_memory(process, address, &byte, 1)) return false;
  byte ^= 1;
  return write_memory(process, address, &byte, 1);
}

// Where the n-th donor's copy is struck: each elsewhere, so that a bad chunk of one is good in
// another. Late parts first, which a copy that is cut short may never need.
uintptr_t place_in(const Mapping& copy, size_t donor) {
  // A mapping is whole pages: of its last one, only the first byte surely is the copy's.
  if (donor == 0) return copy.begin + copy.size_bytes - kPageBytes;
  return donor == 1 ? copy.begin : copy.begin + copy.size_bytes / donor;
}

}  // namespace

Injector::Injector(std::vector<FaultSpec> faults, std::optional<GameDayFile> game_day,
                   std::function<void(const Struck&)> on_struck)
    : on_struck_(std::move(on_struck)), game_day_(std::move(game_day)) {
  for (FaultSpec& fault : faults) {
    Pending pending;
    pending.spec = std::move(fault);
    pending_.push_back(std::move(pending));
  }
  thread_ = std::thread([this] { run(); });
}

Injector::~Injector() {
  {
    const os::MutexLock lock(mutex_);
    world_.is_ending = true;
    changed_.notify_all();
  }
  thread_.join();
  for (const Stopped& stopped : stopped_)
    if (stopped.until)
      for (const Target& target : stopped.targets) target.signal(SIGCONT);
}

void Injector::rank_placed(const PlacedRank& rank) {
  const os::MutexLock lock(mutex_);
  PlacedRank& owner = world_.owners[rank.rank.slot.value()];
  if (owner.rank.incarnation > rank.rank.incarnation || rank.process <= 0) return;
  const Instant at = owner.process == rank.process ? owner.at : os::now();
  owner = rank;
  owner.at = at;
}

void Injector::agent_started(const std::string& host_name, pid_t process) {
  const os::MutexLock lock(mutex_);
  world_.agents[host_name] = process;
}

void Injector::controller_started(pid_t process) {
  const os::MutexLock lock(mutex_);
  world_.controller = process;
}

Injector::World Injector::world() {
  const os::MutexLock lock(mutex_);
  return world_;
}

void Injector::run() {
  while (true) {
    const World seen = world();
    if (seen.is_ending) break;
    const Duration pause = advance(seen);
    const os::MutexLock lock(mutex_);
    if (world_.is_ending) break;
    changed_.wait_for(mutex_, pause);
  }
  pending_.clear();  // traps are this thread's to take away
}

Duration Injector::advance(const World& world) {
  Duration pause = pending_.empty() && stopped_.empty() ? Duration::seconds(1) : kFarPause;
  std::erase_if(pending_, [this, &world, &pause](Pending& pending) {
    if (pending.spec.after_start) return advance_by_time(pending, world, pause);
    if (pending.spec.kind == FaultKind::Poison) return advance_poison(pending, world, pause);
    if (pending.spec.kind == FaultKind::Corrupt) return advance_corrupt(pending, world, pause);
    return advance_pending(pending, world, pause);
  });
  advance_stopped(pause);
  return pause;
}

Injector::Watched* Injector::watched(const PlacedRank& owner) {
  const auto known = watched_.find(owner.rank.slot.value());
  if (known != watched_.end() && known->second.rank == owner.rank) return &known->second;
  Result<RingProbe> probe = RingProbe::open(owner.process);
  if (!probe) return nullptr;
  watched_.erase(owner.rank.slot.value());
  const auto added = watched_.emplace(
      owner.rank.slot.value(), Watched{.rank = owner.rank, .probe = std::move(probe).value()});
  return &added.first->second;
}

// True when the fault is done with.
bool Injector::advance_pending(Pending& pending, const World& world, Duration& pause) {
  const FaultSpec& spec = pending.spec;
  // Without a rank the fault goes by the steps of the first slot.
  const auto owner = spec.rank ? world.owners.find(*spec.rank) : world.owners.begin();
  if (owner == world.owners.end()) return false;
  Watched* rank = watched(owner->second);
  if (rank == nullptr) return false;
  const RankGlance glance = rank->probe.glance();
  const bool is_healing = glance.phase == RankPhase::Heal;  // it has no step yet
  if (is_healing || glance.step + kNearSteps >= spec.step) pause = std::min(pause, kNearPause);
  if (!is_at_step(spec, glance)) return false;
  const Instant now = os::now();
  if (!pending.phase_seen) {
    if (!is_in(wanted_phase(spec), glance)) return false;
    pending.phase_seen = now;
  }
  if (now < *pending.phase_seen + spec.after) return false;
  strike(pending, world, owner->second, glance);
  return true;
}

// Whoever computes the micro-batch ends by itself, as a program does that divides by zero over it.
bool Injector::advance_poison(Pending& pending, const World& world, Duration& pause) {
  const FaultSpec& spec = pending.spec;
  for (const auto& [slot, owner] : world.owners) {
    Watched* rank = watched(owner);
    if (rank == nullptr) continue;
    const RankGlance glance = rank->probe.glance();
    if (glance.step + kNearSteps >= spec.step) pause = std::min(pause, kNearPause);
    if (glance.phase != RankPhase::Compute || glance.step < spec.step) continue;
    if (std::find(pending.poisoned_ranks.begin(), pending.poisoned_ranks.end(), owner.rank) !=
        pending.poisoned_ranks.end())
      continue;
    if (!pending.poisoned_step) {
      if (slot != *spec.rank) continue;  // the first victim is the one that was named
      if (spec.micro_batch && glance.micro_batch != *spec.micro_batch) continue;
      pending.poisoned_step = glance.step;
      pending.spec.micro_batch = glance.micro_batch;
    }
    if (glance.step != *pending.poisoned_step || glance.micro_batch != *pending.spec.micro_batch)
      continue;
    pending.poisoned_ranks.push_back(owner.rank);
    strike(pending, world, owner, glance);
  }
  return pending.poisoned_ranks.size() >= kPoisonStrikes;
}

// The donors' copies of the state, while a joiner heals from them. One of them sends, the other
// vouches for it and steps in, and from outside they look alike: so one bit is flipped in each, and
// whoever sends has one bad chunk that the other has good. Each copy is struck after it has got its
// checksums and before anybody is told of it (SealTrap); a joiner that asks for another gets that
// struck too, until it is level.
bool Injector::advance_corrupt(Pending& pending, const World& world, Duration& pause) {
  const FaultSpec& spec = pending.spec;
  bool is_near = false;
  bool has_joiner = false;
  std::vector<std::pair<const PlacedRank*, RankGlance>> donors;
  for (const auto& [slot, owner] : world.owners) {
    Watched* rank = watched(owner);
    if (rank == nullptr) continue;
    const RankGlance glance = rank->probe.glance();
    if (glance.has_ended) continue;
    is_near = is_near || glance.step >= spec.step;
    // The traps are best set before the joiner can have asked for anything.
    const bool is_joining = glance.phase == RankPhase::Heal || glance.phase == RankPhase::Trial ||
                            glance.phase == RankPhase::Starting;
    if (!is_joining)
      donors.emplace_back(&owner, glance);
    else
      has_joiner = has_joiner || spec.rank.value_or(slot) == slot;
  }
  if (is_near) pause = std::min(pause, kNearPause);
  if (!is_near || !has_joiner) {
    pending.traps.clear();
    return !pending.corrupted.empty();
  }
  pause = std::min(pause, kTrapPause);
  for (const auto& [owner, glance] : donors) trap_copy(pending, *owner, glance);
  return false;
}

void Injector::trap_copy(Pending& pending, const PlacedRank& owner, const RankGlance& glance) {
  auto trap = pending.traps.find(owner.process);
  if (trap == pending.traps.end()) {
    std::optional<SealTrap> set = SealTrap::set(glance.main_thread);
    if (!set) return;
    trap = pending.traps.emplace(owner.process, std::move(*set)).first;
  }
  if (trap->second.poll() != SealTrap::Seen::Sealed) return;
  const Instant at = os::now();
  const size_t donor =
      pending.corrupted.emplace(owner.process, pending.corrupted.size()).first->second;
  bool has_struck = false;
  for (const Mapping& copy : memfds_of(owner.process, wire::kSnapshotLabel))
    has_struck = (pending.struck_copies.insert(copy.inode).second &&
                  flip_bit(owner.process, place_in(copy, donor))) ||
                 has_struck;
  if (!has_struck || std::exchange(pending.is_told, true)) return;
  pending.spec.phase = FaultPhase::Heal;
  report(pending, owner, glance, at, "");
}

bool Injector::advance_by_time(Pending& pending, const World& world, Duration& pause) {
  const auto owner =
      pending.spec.rank ? world.owners.find(*pending.spec.rank) : world.owners.begin();
  if (owner == world.owners.end()) return false;
  if (os::now() < owner->second.at + *pending.spec.after_start) return false;
  pause = std::min(pause, kNearPause);
  strike(pending, world, owner->second, RankGlance{});
  return true;
}

void Injector::strike(const Pending& pending, const World& world, const PlacedRank& owner,
                      const RankGlance& glance) {
  const Instant at = os::now();  // before: detection may be faster than what follows the act
  report(pending, owner, glance, at, act(pending.spec, world, owner, glance));
}

void Injector::report(const Pending& pending, const PlacedRank& owner, const RankGlance& glance,
                      Instant at, std::string failure) {
  Struck struck;
  struck.spec = pending.spec;
  struck.rank = owner.rank;
  struck.host_name = owner.host_name;
  struck.process = owner.process;
  struck.step = glance.step;
  struck.phase = pending.spec.phase == FaultPhase::Any ? phase_of(glance) : pending.spec.phase;
  struck.at = at;
  struck.failure = std::move(failure);
  on_struck_(struck);
}

// Why it could not be done; empty if it was.
std::string Injector::act(const FaultSpec& spec, const World& world, const PlacedRank& owner,
                          const RankGlance& glance) {
  const auto agent = world.agents.find(owner.host_name);
  const pid_t agent_process = agent == world.agents.end() ? 0 : agent->second;
  const auto signal = [](pid_t process, int number) -> std::string {
    const std::optional<Target> target = Target::open(process);
    return target && target->signal(number) ? "" : str("process ", process, " has ended");
  };
  const pid_t thread = glance.main_thread == 0 ? owner.process : glance.main_thread;
  const auto reason_of = [](const Status& status) {
    return status ? std::string() : status.error().message;
  };
  switch (spec.kind) {
    case FaultKind::Kill:
      return signal(owner.process, SIGKILL);
    case FaultKind::Poison:
      return signal(owner.process, SIGSEGV);
    case FaultKind::KillAgent:
      return signal(agent_process, SIGKILL);
    case FaultKind::KillController:
      return signal(world.controller, SIGKILL);
    case FaultKind::Stop:
    case FaultKind::Slow:
      return stop(spec, {owner.process});
    case FaultKind::LoseHost: {
      std::vector<pid_t> processes{agent_process};
      for (const auto& [slot, other] : world.owners)
        if (other.host_name == owner.host_name) processes.push_back(other.process);
      return stop(spec, std::move(processes));
    }
    case FaultKind::Hang:
      return reason_of(hijack_into_blocked_read(owner.process, thread));
    case FaultKind::Spin:
      return reason_of(hijack_into_spin(owner.process, thread));
    case FaultKind::Skip:
      if (!game_day_) return "the program has no game day";
      // The running step may be past its contribution already; the next one is not.
      game_day_->skip(owner.rank.slot.value(), std::max(spec.step, glance.step + 1));
      return "";
    case FaultKind::Corrupt:
      break;  // strikes a copy, not a rank
  }
  return "it needs a step to strike at";
}

std::string Injector::stop(const FaultSpec& spec, std::vector<pid_t> processes) {
  Stopped stopped;
  for (const pid_t process : processes) {
    std::optional<Target> target = Target::open(process);
    if (!target) continue;
    // An older Slow would continue what is to stay stopped.
    for (Stopped& other : stopped_)
      std::erase_if(other.targets,
                    [process](const Target& known) { return known.process() == process; });
    if (target->signal(SIGSTOP)) stopped.targets.push_back(std::move(*target));
  }
  if (stopped.targets.empty()) return "the process has ended";
  const Instant now = os::now();
  std::optional<Duration> lasts = spec.lasts;
  if (!lasts && !spec.lasts_for_ever) {
    if (spec.kind == FaultKind::LoseHost) lasts = kLoseHostDefault;
    if (spec.kind == FaultKind::Slow) lasts = kSlowDefault;
  }
  if (lasts) stopped.until = now + *lasts;
  if (spec.kind == FaultKind::Slow) stopped.cycle.emplace(spec.factor, now);
  stopped_.push_back(std::move(stopped));
  return "";
}

void Injector::advance_stopped(Duration& pause) {
  const Instant now = os::now();
  std::erase_if(stopped_, [now, &pause](Stopped& stopped) {
    if (stopped.until && now >= *stopped.until) {
      for (const Target& target : stopped.targets) target.signal(SIGCONT);
      return true;
    }
    std::erase_if(stopped.targets, [](const Target& target) { return target.has_ended(); });
    if (stopped.targets.empty()) return true;
    if (!stopped.cycle) return false;
    if (now >= stopped.cycle->next_change()) {
      const int number = stopped.cycle->is_stopped() ? SIGCONT : SIGSTOP;
      for (const Target& target : stopped.targets) target.signal(number);
      stopped.cycle->change(now);
    }
    pause = std::min(pause, std::max(Duration(), stopped.cycle->next_change() - now));
    return false;
  });
}

}  // namespace paceline::fault
