// RunView: turns what a watcher of the job is told into what a person sees (see Terminal).
//
// A controller that was restarted repeats what is; a person is told once. Single-threaded.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "cli/terminal.h"
#include "core/model/incident.h"

namespace paceline::cli {

class RunView {
 public:
  // Silence longer than this is broken by a line of progress (not on a terminal, where the block
  // shows it).
  static constexpr Duration kLongestSilence = Duration::seconds(10);

  RunView(Terminal& terminal, Instant now);

  void take(Instant now, const JobEvent& event);
  // One line for people, from `pace run` itself.
  void note(Instant now, Tone tone, const std::string& text);
  // Draws the block again; breaks a long silence. Call it a few times a second.
  void refresh(Instant now);
  // What is still open, then the last words.
  void finish(Instant now);

 private:
  void take_output(Instant now, const OutputLine& output);
  void take_placed(const RankPlaced& placed);
  void take_incident(Instant now, const Incident& incident);
  void take_progress(Instant now, const JobProgress& progress);
  void show_whole(const Incident& incident);
  std::string who(const Incident& incident) const;
  std::string progress_text(Instant now) const;
  double steps_per_second() const;
  void say(Instant now, Tone tone, const std::string& text);

  Terminal& terminal_;
  Instant began_;
  Instant last_said_;
  JobStarted world_;
  bool has_started_ = false;
  std::map<RankId, std::string> hosts_of_ranks_;
  std::set<RankId> explained_;  // whose end has been shown with where it was
  std::map<HostId, std::string> host_names_;
  std::map<uint32_t, RankId> owners_;  // by slot
  std::map<uint32_t, bool> is_spare_;  // by slot
  std::map<uint32_t, Incident> incidents_;
  std::optional<JobProgress> progress_;
  std::deque<std::pair<Instant, uint64_t>> recent_steps_;  // of the last few seconds
  std::map<std::string, std::pair<Step, double>> metrics_;
  std::optional<JobEnded> end_;
};

// "312 ms", "4.2 s": as people say it.
std::string spoken(Duration duration);

}  // namespace paceline::cli
