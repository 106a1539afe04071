// Verdict: why a job does not run, as one binding reason with its numbers, and the smallest change
// that would admit it.
//
//   never      it would not fit the empty, fully healthy cluster, or breaks a limit by itself; the
//              numbers are the certificate
//   not now    it fits the empty cluster, and something is in its way today
//   undecided  the search ended at its bound before it knew
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/sched/placer.h"
#include "core/sched/queue_tree.h"

namespace paceline::sched {

enum class Answer : uint8_t { Never, NotNow, Undecided };

enum class Cause : uint8_t {
  Limit,       // of a queue
  Quota,       // work that cannot be preempted stays within it
  NoSuchNode,  // no node can take a single pod
  TooLarge,    // no domain of the required level can hold the group
  Busy,        // fewer GPUs (or other resources) are free than it needs
  Fragmented,  // enough are free, but not together
  Reserved,    // there is room, kept for a larger job that waits
  Turn,        // there is room, and jobs before it in its queue have not been tried to the end
  Search,      // the search bound was met
};

// With exactly this much the job would be admitted, and with one unit less not.
struct SmallestChange {
  enum class Kind : uint8_t { FewerPods, HigherLimit };
  Kind kind = Kind::FewerPods;
  int64_t amount = 0;  // pods that may stay; by how much the limit must rise
};

struct Verdict {
  Answer answer = Answer::NotNow;
  Cause cause = Cause::Busy;
  int64_t needed = 0;
  int64_t available = 0;
  std::string where = {};     // the queue, or the domain with the most room
  std::string resource = {};  // or the level of that domain
  std::optional<SmallestChange> change = {};

  std::string text() const;
};

struct Question {
  const JobSpec& job;
  size_t leaf;  // of its queue
  const QueueTree& queues;
};

// The verdict that holds whatever runs; nothing if the job fits an empty cluster. `empty` is a
// fleet on which nothing runs and every node is up; it is unchanged afterwards.
std::optional<Verdict> verdict_when_empty(const Question& question, Fleet& empty,
                                          SearchBudget& budget);

// Why the job does not start on `fleet`. REQUIRES: verdict_when_empty() has said nothing.
Verdict verdict_now(const Question& question, const Fleet& fleet);

}  // namespace paceline::sched
