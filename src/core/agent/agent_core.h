// AgentCore: everything that a host's agent decides, as one state machine.
//
// The controller states what should run on the host (Desired); the agent makes it so and reports
// what is. It judges nobody: a rank is started once per incarnation, ended when it is no longer
// desired, and its death is reported as soon as the kernel begins it.
//
//   Serving --(Shutdown; the parent is gone; orphaned)--> Ending --(no process left)--> Exit
//
// Invariants: an incarnation is spawned at most once in the life of the agent; a Desired with a
// sequence not above the last one of its stream changes nothing; nothing is sent but on an open
// stream, and the first message on it is AgentHello.
//
// A broken stream: what ranks did meanwhile is stated again after the next hello (SupervisedRank);
// samples, metrics and output wait within bounds, oldest dropped first.
//
// Pure and single-threaded. The driver calls step(now, event), carries out take_effects() in order,
// and arms one timer at next_deadline() for Tick and one at next_reading() for RingsRead. Both
// times may change with every step.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/time.h"
#include "core/agent/agent_event.h"
#include "core/agent/reporting_pace.h"
#include "core/agent/supervised_rank.h"

namespace paceline::agent {

// What waits for a controller while there is none.
inline constexpr size_t kMaxWaitingLines = 2000;
inline constexpr size_t kMaxWaitingSamples = 20000;
// Samples are sent again on a new stream if they were sent so late on the old one that its end may
// have swallowed them. Their receiver knows which it has.
inline constexpr Duration kSendAgain = Duration::seconds(3);
inline constexpr size_t kMaxWaitingMetrics = 2000;
// After this an agent ends although a process does not (one that is stuck in the kernel).
inline constexpr Duration kEndingLimit = Duration::seconds(5);

struct Config {
  std::string host_name;
  uint64_t agent_instance = 0;
  uint32_t address = 0;  // of the host; IPv4, host byte order
  // Without controller and commit for this long, the ranks serve nobody.
  Duration orphan_limit = Duration::seconds(600);
  ReportingPace::Windows windows = {};
};

class AgentCore {
 public:
  AgentCore(Config config, Instant now);

  void step(Instant now, const Event& event);
  std::vector<Effect> take_effects();
  std::optional<Instant> next_deadline() const;
  // When to read the rings: soon in lively times, later in calm ones.
  Instant next_reading() const { return pace_.next_reading(); }

  const std::map<RankId, SupervisedRank>& ranks() const { return ranks_; }

 private:
  void on(const CommandReceived& event);
  void on(const StreamUp& event);
  void on(const StreamDown& event);
  void on(const ProcessSpawned& event);
  void on(const SpawnFailed& event);
  void on(const RankSaid& event);
  void on(const BellRang& event);
  void on(const ProcessEnded& event);
  void on(const OutputRead& event);
  void on(const RingsRead& event);
  void on(const ParentGone& event);
  void on(const Tick& event);

  void take(const Desired& desired);
  void take(const ToRank& command);
  void take(const Heal& command);
  void take(const Release& command);
  void take(const Shutdown& command);

  void end_undesired(const Desired& desired);
  void start_missing(const Desired& desired);
  struct EndReason {
    bool is_host_ending = false;  // the agent ends with all its ranks
    Duration grace = {};          // from SIGTERM to SIGKILL; zero: SIGKILL at once
  };
  void end_rank(SupervisedRank& rank, EndReason reason);
  void end_overdue();
  void end_everything(std::string reason);
  void exit_if_clean();
  void exit(std::string reason);
  void tell(RankId rank, RankOrder order);
  void send(HostEvent event);
  void send_waiting_lines();
  void remember_sent_samples();
  void send_samples_again();
  bool is_ending() const { return ending_limit_.has_value(); }
  Instant orphan_deadline() const { return last_sign_ + config_.orphan_limit; }
  SupervisedRank* find(RankId rank);

  Config config_;
  Instant now_;
  bool is_stream_up_ = false;
  uint64_t sequence_ = 0;  // of the last Desired taken on this stream
  Instant last_sign_;      // last moment with a controller or a commit
  ReportingPace pace_;
  std::map<RankId, SupervisedRank> ranks_;
  std::map<SlotId, Incarnation> spawned_;  // highest of each slot

  std::deque<OutputLine> lines_;
  uint64_t lines_dropped_ = 0;
  std::deque<std::pair<RankId, RankSample>> samples_;
  std::deque<std::pair<Instant, std::pair<RankId, RankSample>>> sent_samples_;  // within kSendAgain
  std::deque<RankMetric> metrics_;

  std::optional<Instant> ending_limit_;
  std::string ending_reason_;
  bool has_exited_ = false;
  std::vector<Effect> effects_;
};

}  // namespace paceline::agent
