// What a user asks for: groups of like pods that start together or not at all.
//
// Elastic sizes, nested groups, segments and services are not here yet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/sched/topology.h"

namespace paceline::sched {

// What one pod takes on one node.
struct PodShape {
  Resources amount = {};                            // of everything, GPUs included
  uint16_t gpu_count = 0;                           // GPUs that it sits on: several are whole ones
  std::vector<std::string> gpu_models = {};         // any of these; empty: any at all
  std::vector<std::string> features = {};           // all of these
  std::vector<std::string> excluded_features = {};  // none of these
  auto operator<=>(const PodShape&) const = default;

  bool is_gpu_fraction() const { return gpu_count == 1 && amount[kGpu] < kMilli; }
  bool matches(const NodeClass& kind) const;
};

// Inside one domain of the level `required`; inside one of `preferred`, or else of the level above
// it, and so on up to `required`. What is not stated: as close together as there is room.
struct Closeness {
  std::optional<Level> required = {};
  std::optional<Level> preferred = {};
  auto operator<=>(const Closeness&) const = default;
};

struct PodGroup {
  std::string name = {};
  PodShape shape = {};
  uint32_t pods = 1;
  Closeness closeness = {};
  auto operator<=>(const PodGroup&) const = default;
};

// All that decides where a job fits. Jobs of one shape are answered once.
struct JobShape {
  std::vector<PodGroup> groups = {};
  Closeness closeness = {};
  auto operator<=>(const JobShape&) const = default;
  Resources total() const;
};

// What stopping a job while it runs loses, beside the wait for another start.
struct StopCost {
  Duration restart = {};                          // from a new start until it works on
  std::optional<Duration> checkpoint_every = {};  // none: all work since its start is lost
};

struct JobSpec {
  JobId id;
  std::string name = {};
  QueueId queue;
  int32_t priority = 0;
  bool is_preemptible = true;
  JobShape shape = {};
  Instant submitted = {};
  std::optional<Duration> expected = {};  // run time: a limit, or an estimate
  StopCost stop = {};
};

inline constexpr uint32_t kMaxPods = 65'536;

// Refuses what no cluster could run: fractions of several GPUs, negative amounts, no pods.
Status check_job(const JobSpec& job, const Topology& topology);

}  // namespace paceline::sched
