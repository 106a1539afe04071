// HangDetector: which rank keeps all others waiting and will not come back.
//
// A timeout alone cannot tell a hang from a long step. What the ranks do at the same moment can: in
// a hang every rank but the hung ones has come to the collective of this turn, or to the barrier
// before it, and waits there. So a long stay is judged only when all others wait, and then a few
// steps are enough:
//
//   stopped        every thread is stopped and the library's own thread gives no beat
//   never entered  in a micro-batch or elsewhere in the program's own code, blocked or spinning; it
//                  does not come to the collective
//   mismatched     there too, but it has gone past what the others wait for: a contribution or a
//                  call is left out, and the library has refused the call that came instead
//   stuck          it has entered: inside finish_step though its turn is committed, or behind the
//                  others there, or its library does not run
//   traced         under a debugger: told, never acted on
//
// Limits are learned from the run (limits.h). What the observer did not see
// is not held against a rank: a window that its agent made late, a pause of the controller itself
// and time under a debugger are credited to every stay that they fall into.
//
// All lengths are measured on the clock of the rank's own host; hosts' clocks are never compared.
// Pure. Cost of judge(): O(members); what is more than a look at each is done once nobody is busy.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/model/host_message.h"
#include "core/model/incident.h"
#include "core/recovery/run_history.h"

namespace paceline::recovery {

struct HangFinding {
  HangClass hang_class = HangClass::None;
  std::optional<RankId> rank;  // none: all have entered the collective, and it does not end
  bool may_act = false;        // false: to be told only
  Duration stay;
  Duration limit;
  std::string evidence;
};

class HangDetector {
 public:
  // `now` is the controller's clock; everything in the window is on the agent's.
  void observe(Instant now, const Window& window);
  void add_sample(RankId rank, const RankSample& sample);
  // The observer itself did not run for so long.
  void credit_all(Duration blind);

  // Findings about `members`, the ranks of the epoch in force; each is given again at every call
  // for as long as it holds. A finding must have held in two calls at least kConfirmation apart.
  std::vector<HangFinding> judge(Instant now, const std::vector<RankId>& members,
                                 const RunHistory& history);
  // About a process that is on its way to be a member: nobody waits for it, so only that it does
  // not run, or does not come back from the program's own code, tells against it. None while no
  // member is seen to run. As above otherwise.
  std::optional<HangFinding> judge_joiner(Instant now, RankId joiner,
                                          const std::vector<RankId>& members,
                                          const RunHistory& history);
  // True if the rank has committed, changed its phase, or run again since it was found. False while
  // nothing is known of it.
  bool has_moved_since(RankId rank, Instant found) const;

 private:
  struct Watched {
    RankView view;
    Instant at;         // agent's clock, of the newest window
    Instant heard;      // controller's clock
    Duration interval;  // between its last two windows
    Duration phase_credit, beat_credit;
    Instant ran_at;              // agent's clock: last window in which it was not stopped
    Instant moved;               // controller's clock: last sign of going on
    Duration cpu_time_at_entry;  // of its phase
    std::optional<RankSample> last_sample;
    std::optional<Instant> stopped_since;  // suspected since; controller's clock
  };
  // The members, as far as their last view tells of the present.
  struct Seen {
    const std::vector<Watched*>& fresh;
    size_t stale = 0;
  };
  struct Suspicion {
    HangClass hang_class = HangClass::None;
    Duration stay;
    Duration limit;
    std::string what;
  };

  Watched* find(RankId rank);
  const Watched* find(RankId rank) const;
  static void take_view(Watched& watched, const RankView& view, const Window& window);
  static bool is_fresh(const Watched& watched, Instant now);
  static Duration beat_age(const Watched& watched);
  static std::optional<Suspicion> suspect_stopped(const Watched& watched,
                                                  const RunHistory& history);
  static std::optional<Suspicion> suspect_joiner_away(const Watched& watched,
                                                      const RunHistory& history);
  static std::optional<Suspicion> suspect_joiner(const Watched& watched, const RunHistory& history);
  static std::optional<Suspicion> suspect_traced(const Watched& watched, const RunHistory& history);
  static std::optional<Suspicion> suspect_mismatched(const Watched& watched,
                                                     const RunHistory& history);
  static std::optional<Suspicion> suspect_stuck(const Watched& watched, Turn newest,
                                                const RunHistory& history);
  static HangFinding finding_of(RankId rank, const Suspicion& suspicion,
                                const std::string& context);
  static void judge_stopped(Instant now, const Seen& members, const RunHistory& history,
                            std::vector<HangFinding>& findings);
  // REQUIRES: all members have been seen of late.
  void judge_stuck(Instant now, const std::vector<Watched*>& members, const RunHistory& history,
                   std::vector<HangFinding>& findings);

  std::vector<Watched> watched_;           // by slot: the newest process that was seen there
  std::map<RankId, Instant> stuck_since_;  // who was at the last judgement; controller's clock
};

}  // namespace paceline::recovery
