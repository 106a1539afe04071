// Injector: breaks a running job as its game day says.
//
// It sees the job from outside: which process owns which slot (it is told), and what each rank is
// doing (RingProbe). It acts from outside too: signals and ptrace. Its own thread looks every 200
// us while a fault is near or under way, else every 5 ms.
//
// Programs without a ring have no steps: their faults strike a time after the rank was placed.
//
// A fault waits until the owner of its slot has reached its step and phase. If the step passes
// without the phase having been seen, the fault strikes in the first such phase later on.
//
// Threads: any may call; callbacks come on the injector's thread, with no lock held.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/model/ids.h"
#include "live/fault/duty_cycle.h"
#include "live/fault/fault_spec.h"
#include "live/fault/game_day_file.h"
#include "live/fault/ring_probe.h"
#include "live/fault/seal_trap.h"
#include "live/fault/target.h"
#include "live/os/mutex.h"

namespace paceline::fault {

struct PlacedRank {
  RankId rank;
  std::string host_name;
  pid_t process = 0;
  Instant at{};  // when it was placed; set by the injector
};

// A fault that has struck, or that could not.
struct Struck {
  FaultSpec spec;
  std::optional<RankId> rank;
  std::string host_name;
  pid_t process = 0;
  Instant at;
  uint64_t step = 0;
  FaultPhase phase = FaultPhase::Any;  // the one it was in
  std::string failure;                 // why nothing happened; empty: it struck
};

class Injector {
 public:
  // `game_day`: of programs that play along; none: Skip cannot strike.
  Injector(std::vector<FaultSpec> faults, std::optional<GameDayFile> game_day,
           std::function<void(const Struck&)> on_struck);
  // Continues what it has stopped, unless that was for ever.
  ~Injector();
  Injector(const Injector&) = delete;
  Injector& operator=(const Injector&) = delete;

  // The newest owner of a slot counts.
  void rank_placed(const PlacedRank& rank) EXCLUDES(mutex_);
  void agent_started(const std::string& host_name, pid_t process) EXCLUDES(mutex_);
  void controller_started(pid_t process) EXCLUDES(mutex_);

 private:
  struct World {
    std::map<uint32_t, PlacedRank> owners;  // by slot
    std::map<std::string, pid_t> agents;
    pid_t controller = 0;
    bool is_ending = false;
  };
  struct Watched {
    RankId rank;
    RingProbe probe;
  };
  struct Pending {
    FaultSpec spec;
    std::optional<Instant> phase_seen;
    std::optional<uint64_t> poisoned_step;  // Poison that has struck once goes on at this step
    std::vector<RankId> poisoned_ranks;
    // Of Corrupt.
    std::map<pid_t, SealTrap> traps;
    std::map<pid_t, size_t> corrupted;  // donors, numbered as they were struck
    std::set<uint64_t> struck_copies;   // inodes
    bool is_told = false;
  };
  // What goes on after the strike: processes that are stopped, and when that changes.
  struct Stopped {
    std::vector<Target> targets;
    std::optional<Instant> until;    // none: for ever
    std::optional<DutyCycle> cycle;  // of Slow
  };

  void run();
  World world() EXCLUDES(mutex_);
  // The shortest time until something may have to be done.
  Duration advance(const World& world);
  bool advance_pending(Pending& pending, const World& world, Duration& pause);
  bool advance_poison(Pending& pending, const World& world, Duration& pause);
  bool advance_corrupt(Pending& pending, const World& world, Duration& pause);
  void trap_copy(Pending& pending, const PlacedRank& owner, const RankGlance& glance);
  // For ranks without a ring: the kinds that need none, some time after the rank was placed.
  bool advance_by_time(Pending& pending, const World& world, Duration& pause);
  void advance_stopped(Duration& pause);
  Watched* watched(const PlacedRank& owner);
  void strike(const Pending& pending, const World& world, const PlacedRank& owner,
              const RankGlance& glance);
  void report(const Pending& pending, const PlacedRank& owner, const RankGlance& glance, Instant at,
              std::string failure);
  std::string act(const FaultSpec& spec, const World& world, const PlacedRank& owner,
                  const RankGlance& glance);
  std::string stop(const FaultSpec& spec, std::vector<pid_t> processes);

  const std::function<void(const Struck&)> on_struck_;
  os::Mutex mutex_;
  os::Condition changed_;
  World world_ GUARDED_BY(mutex_);

  // Of the injector's thread alone.
  std::optional<GameDayFile> game_day_;
  std::vector<Pending> pending_;
  std::vector<Stopped> stopped_;
  std::map<uint32_t, Watched> watched_;  // by slot

  std::thread thread_;  // last: everything above exists while it runs
};

}  // namespace paceline::fault
