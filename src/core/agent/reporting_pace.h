// ReportingPace: when an agent reads its rings next and reports what it finds.
//
// A report costs its host and the controller the same whether it says something new or not. While
// every rank of the host goes on as it did before, nobody waits for the next one, and readings lie
// a quiet window apart. As soon as something is unusual they lie a short window apart.
//
//   calm --(a rank stays longer than usual, gives no beat, is refused or not in its loop; anything
//           happens but measurements)--> lively --(all as usual, and nothing has happened for
//           kSettling)--> calm
//
// Invariant: what is unusual lies below every limit of core/recovery, and the times are lively a
// quiet window after it at the latest. So a verdict comes at most 150 ms later than if all times
// were lively: turns of 125 ms are unusual from 350 ms on and beyond the limit at 500 ms.
// Samples and metrics lose nothing: a quiet window fills at most a quarter of a rank's ring.
//
// Pure and single-threaded; a part of AgentCore.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "base/time.h"
#include "core/agent/agent_event.h"
#include "core/model/quiet_window.h"

namespace paceline::agent {

// What a rank may write between two quiet readings. Its ring holds at least four times as much.
inline constexpr size_t kQuietSamples = 64;
inline constexpr size_t kQuietMetrics = 16;

class ReportingPace {
 public:
  struct Windows {
    Duration lively = kWindowInterval;
    Duration calm = kQuietWindowInterval;
  };

  ReportingPace(Windows windows, Instant now);

  // Something has happened that the controller may want to see the consequences of.
  void disturbed(Instant now);
  // The rings have been read. Ranks that are not in it are forgotten.
  void read(Instant now, const RingsRead& rings);

  Instant next_reading() const { return next_; }

 private:
  // The turns of a rank, by the times of their commits.
  struct Turns {
    Instant committed;                // the last
    std::deque<Duration> lengths;     // of the last kTurns, from commit to commit
    size_t samples = 0, metrics = 0;  // in this reading
  };

  void learn(Instant now, const RingsRead& rings);
  bool is_as_usual(Instant now, const RankView& view) const;
  bool is_little(Duration since_last, const Turns& turns) const;

  const Windows windows_;
  Instant last_;  // reading
  Instant next_;
  Instant lively_until_;
  std::map<RankId, Turns> turns_;
};

}  // namespace paceline::agent
