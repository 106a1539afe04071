// FaultSpec: one fault of a game day, as a user writes it.
//
//   fault  := kind [ "@" option { separator option } ]     separator := ":" | ","
//   option := name "=" value
//
//   kill@step=40:rank=3,phase=reduce       SIGKILL to the process that owns slot 3
//   slow@step=100:rank=1,factor=3,for=10s  stopped and continued from outside, three times as slow
//
//   kill@after_ms=1500:rank=1              for programs without steps: since the rank was placed
//
// `step` is the number of updates applied when the fault strikes; `rank` the slot whose present
// owner it strikes. A fault that finds its slot empty waits for the next owner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace paceline::fault {

enum class FaultKind : uint8_t {
  Kill,            // SIGKILL to the rank
  Stop,            // SIGSTOP to the rank; continued after `for`, if given
  Hang,            // a blocked read in the training thread
  Spin,            // an endless loop in the training thread
  Skip,            // the program leaves one collective out (needs a program that plays along)
  Slow,            // duty cycle of SIGSTOP and SIGCONT
  LoseHost,        // agent and ranks of the rank's host frozen in one go
  KillAgent,       // SIGKILL to the agent of the rank's host
  KillController,  // SIGKILL to the controller
  Corrupt,         // one flipped bit in each donor's copy of the state, while the rank heals
  Poison,          // whoever computes one micro-batch dies by itself
};

// Where in a step the fault strikes. Any: as soon as the step is running.
enum class FaultPhase : uint8_t { Any, Compute, Reduce, Commit, Prepare, Heal, Trial };

struct FaultSpec {
  FaultKind kind = FaultKind::Kill;
  uint64_t step = 0;
  // Instead of a step, for programs that do not use libpaceline: since the rank was placed.
  std::optional<Duration> after_start;
  std::optional<uint32_t> rank;  // none only for KillController and Corrupt (whoever heals)
  FaultPhase phase = FaultPhase::Any;
  Duration after;                       // waited after the phase has been seen
  std::optional<Duration> lasts;        // `for=`; none: the kind's default
  bool lasts_for_ever = false;          // `for=ever`
  double factor = 3;                    // of Slow: how many times as long
  std::optional<uint32_t> micro_batch;  // of Poison; none: the one seen first
  std::string text;                     // as it was written
};

std::string_view name_of(FaultKind kind);
std::string_view name_of(FaultPhase phase);

// The error is one line with the offending part and what would be accepted.
Result<FaultSpec> parse_fault(std::string_view text);

// One fault a line; blank lines and what follows a `#` are skipped. Errors name the line.
Result<std::vector<FaultSpec>> parse_fault_lines(std::string_view text);

}  // namespace paceline::fault
