// JobSpec: what a user asks for.
#pragma once

#include <cstdint>
#include <string>

#include "core/model/host_message.h"

namespace paceline {

enum class ReduceMode : uint8_t { Exact, Fast };
// Covers what the system does by its own judgement to something that still works. What is dead is
// replaced in every mode.
enum class RecoveryMode : uint8_t { Act, Observe, Off };
enum class PoisonPolicy : uint8_t { Stop, Skip };

// In the program's environment: the checkpoint that the ranks continue from. One for all of them,
// so that no two can differ.
inline constexpr const char* kResumeFromVariable = "PACELINE_RESUME_FROM";

struct JobSpec {
  std::string name;
  Program program;
  uint32_t hosts_min = 1;    // fewer can not go on
  uint32_t hosts_max = 1;    // hosts that work when all is well
  uint32_t spare_hosts = 0;  // hosts beyond hosts_max that stand by
  uint32_t ranks_per_host = 1;
  uint32_t micro_batches = 0;  // V; 0: the number of ranks
  uint64_t seed = 0;
  ReduceMode reduce = ReduceMode::Exact;
  RecoveryMode recovery = RecoveryMode::Act;
  PoisonPolicy poison = PoisonPolicy::Stop;
  bool is_aware = true;  // links libpaceline; otherwise restarts are its only repair
  // Hot spares are members without work. Cold ones are hosts without processes, until one is
  // needed.
  bool has_hot_spares = true;
  uint32_t max_restarts = 3;                      // of one slot without progress between
  Duration join_timeout = Duration::seconds(60);  // for the hosts to appear
  Duration silence_limit =
      Duration::milliseconds(500);  // of an agent, before its ranks are asked about
  // From SIGTERM to SIGKILL, of programs that do not link the library, when the job is stopped.
  Duration stop_grace = Duration::seconds(10);
  std::string checkpoint_directory;  // empty: none
  uint64_t checkpoint_every = 0;     // commits; 0: chosen by cost
  bool operator==(const JobSpec&) const = default;

  uint32_t ranks() const { return hosts_max * ranks_per_host; }
};

}  // namespace paceline
