#include "core/recovery/hang_detector.h"

#include <algorithm>
#include <utility>

#include "base/str.h"
#include "core/model/quiet_window.h"
#include "core/recovery/limits.h"

namespace paceline::recovery {
namespace {

// Windows of two hosts that the controller takes out of one backlog lie at one moment for it; two
// judgements apart in time see at least one newer window of each. (No agent is calm when a limit is
// passed: its windows lie kWindowInterval apart.)
constexpr Duration kConfirmation = Duration::milliseconds(40);
// A view older than so many windows says nothing of the present, but the next one may be a calm
// agent's. It is younger than any limit then: who waits in it still waits for the suspect.
constexpr int64_t kFreshWindows = 4;
constexpr Duration kLeastFresh = kQuietWindowInterval * 2;

bool is_waiting(RankPhase phase) { return phase == RankPhase::Wait || phase == RankPhase::Prepare; }
bool is_in_program(RankPhase phase) {
  return phase == RankPhase::Compute || phase == RankPhase::Outside;
}

// Has a suspicion held for long enough? `since` is when it came up first.
bool is_confirmed(std::optional<Instant>& since, Instant now, bool is_suspect) {
  if (!is_suspect) {
    since.reset();
    return false;
  }
  if (!since) since = now;
  return now - *since >= kConfirmation;
}

// Does its process burn CPU time in this phase, or does it sit still?
const char* how_it_stays(Duration cpu_time, Duration stay) {
  return cpu_time * 2 > stay ? "spinning" : "blocked";
}

}  // namespace

// --- What is seen ---

void HangDetector::observe(Instant now, const Window& window) {
  for (const RankView& view : window.views) {
    const uint32_t slot = view.rank.slot.value();
    if (slot >= kMaxRanks) continue;  // no rank of any job
    if (slot >= watched_.size()) watched_.resize(slot + 1);
    Watched& watched = watched_[slot];
    const Incarnation known = watched.view.rank.incarnation;
    if (view.rank.incarnation < known) continue;  // another process has taken its place
    if (view.rank.incarnation > known) watched = {};
    const bool has_moved = watched.view.committed != view.committed ||
                           watched.view.phase_since != view.phase_since ||
                           (watched.view.is_stopped && !view.is_stopped) ||
                           (watched.view.is_traced && !view.is_traced);
    const bool is_first = watched.heard == Instant();
    if (is_first) {
      watched.moved = now - (window.at - view.phase_since);  // perhaps seen by an earlier life
    } else if (has_moved) {
      watched.moved = now;
    }
    take_view(watched, view, window);
    watched.heard = now;
  }
}

HangDetector::Watched* HangDetector::find(RankId rank) {
  return const_cast<Watched*>(std::as_const(*this).find(rank));
}

const HangDetector::Watched* HangDetector::find(RankId rank) const {
  if (rank.slot.value() >= watched_.size()) return nullptr;
  const Watched& watched = watched_[rank.slot.value()];
  return watched.view.rank == rank ? &watched : nullptr;
}

void HangDetector::take_view(Watched& watched, const RankView& view, const Window& window) {
  const bool is_first = watched.at == Instant();
  const Duration between = is_first ? kWindowInterval : window.at - watched.at;
  // Time that nobody saw, or in which a debugger held the process.
  const Duration unseen = view.is_traced ? std::max(window.blind, between) : window.blind;
  if (is_first || view.phase_since != watched.view.phase_since ||
      view.committed != watched.view.committed) {
    watched.phase_credit = Duration();
    watched.cpu_time_at_entry = view.cpu_time;
  }
  if (is_first || view.last_beat != watched.view.last_beat) watched.beat_credit = Duration();
  if (is_first || !view.is_stopped) watched.ran_at = window.at;
  watched.phase_credit += unseen;
  watched.beat_credit += unseen;
  watched.interval = between;
  watched.view = view;
  watched.at = window.at;
}

void HangDetector::add_sample(RankId rank, const RankSample& sample) {
  if (Watched* watched = find(rank)) watched->last_sample = sample;
}

void HangDetector::credit_all(Duration blind) {
  for (Watched& watched : watched_) {
    watched.phase_credit += blind;
    watched.beat_credit += blind;
    watched.stopped_since.reset();
  }
  stuck_since_.clear();
}

bool HangDetector::has_moved_since(RankId rank, Instant found) const {
  const Watched* watched = find(rank);
  return watched != nullptr && watched->moved > found;
}

bool HangDetector::is_fresh(const Watched& watched, Instant now) {
  return now - watched.heard <= std::max(kLeastFresh, watched.interval * kFreshWindows);
}

Duration HangDetector::beat_age(const Watched& watched) {
  if (watched.view.last_beat == Instant()) return {};  // its library has not begun to beat
  return watched.at - watched.view.last_beat - watched.beat_credit;
}

// --- Suspicion of one rank ---

std::optional<HangDetector::Suspicion> HangDetector::suspect_stopped(const Watched& watched,
                                                                     const RunHistory& history) {
  if (!watched.view.is_stopped || watched.view.is_traced) return std::nullopt;
  const Suspicion suspicion{.hang_class = HangClass::Stopped,
                            .stay = beat_age(watched),
                            .limit = stopped_limit(history),
                            .what = "all its threads are stopped by a signal"};
  if (suspicion.stay < suspicion.limit) return std::nullopt;
  return suspicion;
}

// Nobody waits for it, but between its first begin_step and its first commit it has nothing to do
// that may take longer than what members do.
std::optional<HangDetector::Suspicion> HangDetector::suspect_joiner_away(
    const Watched& watched, const RunHistory& history) {
  const RankView& view = watched.view;
  const bool is_in_trial = view.phase == RankPhase::Trial;
  if (!is_in_trial && view.phase != RankPhase::Outside) return std::nullopt;
  Suspicion suspicion{.hang_class = HangClass::NeverEntered,
                      .stay = watched.at - view.phase_since - watched.phase_credit,
                      .limit = joiner_stay_limit(history, view.phase),
                      .what = {}};
  if (suspicion.stay < suspicion.limit) return std::nullopt;
  suspicion.what =
      str(is_in_trial
              ? str("it has not come out of its trial, the donor's micro-batch ", view.micro_batch)
              : "it has not come back from the program's own code",
          ": ", how_it_stays(view.cpu_time - watched.cpu_time_at_entry, suspicion.stay));
  return suspicion;
}

// Its library may not have begun to beat.
std::optional<HangDetector::Suspicion> HangDetector::suspect_joiner(const Watched& watched,
                                                                    const RunHistory& history) {
  if (watched.view.is_traced) return suspect_traced(watched, history);
  Suspicion suspicion;
  if (watched.view.is_stopped) {
    suspicion = {.hang_class = HangClass::Stopped,
                 .stay = watched.at - watched.ran_at - watched.beat_credit,
                 .limit = stopped_limit(history),
                 .what = "all its threads are stopped by a signal"};
  } else if (const std::optional<Suspicion> away = suspect_joiner_away(watched, history)) {
    return away;
  } else {
    suspicion = {.hang_class = HangClass::Stuck,
                 .stay = beat_age(watched),
                 .limit = joiner_limit(history),
                 .what = "its library's own thread does not run"};
  }
  if (suspicion.stay < suspicion.limit) return std::nullopt;
  return suspicion;
}

std::optional<HangDetector::Suspicion> HangDetector::suspect_traced(const Watched& watched,
                                                                    const RunHistory& history) {
  const RankView& view = watched.view;
  if (!view.is_traced) return std::nullopt;
  Suspicion suspicion{.hang_class = HangClass::Traced,
                      .stay = beat_age(watched) + watched.beat_credit,
                      .limit = stopped_limit(history),
                      .what = "a debugger holds it"};
  if (suspicion.stay < suspicion.limit && is_in_program(view.phase)) {
    suspicion.stay = watched.at - view.phase_since;
    suspicion.limit = stay_limit(history, view.phase, view.rank);
  }
  if (suspicion.stay < suspicion.limit) return std::nullopt;
  return suspicion;
}

std::optional<HangDetector::Suspicion> HangDetector::suspect_mismatched(const Watched& watched,
                                                                        const RunHistory& history) {
  const RankView& view = watched.view;
  if (view.refused_since == Instant() || !is_in_program(view.phase)) return std::nullopt;
  const Suspicion suspicion{
      .hang_class = HangClass::Mismatched,
      .stay = watched.at - view.refused_since - watched.phase_credit,
      .limit = refused_limit(history),
      .what =
          "its calls have been out of order: it has left a contribution or a call out, and the "
          "library refuses what follows"};
  if (suspicion.stay < suspicion.limit) return std::nullopt;
  return suspicion;
}

// `newest`: turns that the foremost member has committed.
std::optional<HangDetector::Suspicion> HangDetector::suspect_stuck(const Watched& watched,
                                                                   Turn newest,
                                                                   const RunHistory& history) {
  const RankView& view = watched.view;
  if (view.is_traced) return std::nullopt;
  if (const std::optional<Suspicion> mismatched = suspect_mismatched(watched, history))
    return mismatched;
  Suspicion suspicion;
  suspicion.limit = stay_limit(history, view.phase, view.rank);
  const Duration in_phase = watched.at - view.phase_since - watched.phase_credit;
  const Duration cpu_time = view.cpu_time - watched.cpu_time_at_entry;
  if (is_in_program(view.phase)) {
    suspicion.hang_class = HangClass::NeverEntered;
    suspicion.stay = in_phase;
    if (in_phase >= suspicion.limit)  // texts are made for suspects alone: this runs all the time
      suspicion.what =
          str("it has not come to the collective: ", how_it_stays(cpu_time, in_phase),
              view.phase == RankPhase::Compute ? str(" in micro-batch ", view.micro_batch)
                                               : " in the program's own code");
  } else if (is_waiting(view.phase)) {
    suspicion.hang_class = HangClass::Stuck;
    const std::optional<RankSample>& last = watched.last_sample;
    const bool has_commit = last && last->turn.next() == view.committed && !last->is_flagged;
    if (view.committed < newest) {
      suspicion.stay = in_phase;
      if (in_phase >= suspicion.limit)
        suspicion.what =
            str("in finish_step and has committed ", view.committed, " of ", newest, " turns");
    } else if (has_commit && view.phase_since < last->committed) {
      suspicion.stay = watched.at - last->committed - watched.phase_credit;
      suspicion.what = "in finish_step, which does not return though its turn is committed";
    }
  }
  if (suspicion.stay >= suspicion.limit) return suspicion;
  suspicion.stay = beat_age(watched);
  if (suspicion.stay < suspicion.limit) return std::nullopt;
  suspicion.hang_class = HangClass::Stuck;
  suspicion.what = "its library's own thread does not run";
  return suspicion;
}

// --- Judgement of all ---

HangFinding HangDetector::finding_of(RankId rank, const Suspicion& suspicion,
                                     const std::string& context) {
  return {.hang_class = suspicion.hang_class,
          .rank = rank,
          .may_act = true,
          .stay = suspicion.stay,
          .limit = suspicion.limit,
          .evidence = str("for ", suspicion.stay, " (limit ", suspicion.limit, ") ", suspicion.what,
                          "; ", context)};
}

std::vector<HangFinding> HangDetector::judge(Instant now, const std::vector<RankId>& members,
                                             const RunHistory& history) {
  std::vector<HangFinding> findings;
  std::vector<Watched*> fresh;
  fresh.reserve(members.size());
  for (const RankId rank : members)
    if (Watched* watched = find(rank); watched != nullptr && is_fresh(*watched, now))
      fresh.push_back(watched);
  const size_t stale = members.size() - fresh.size();
  judge_stopped(now, {.fresh = fresh, .stale = stale}, history, findings);
  if (findings.empty() && stale == 0) judge_stuck(now, fresh, history, findings);
  return findings;
}

std::optional<HangFinding> HangDetector::judge_joiner(Instant now, RankId joiner,
                                                      const std::vector<RankId>& members,
                                                      const RunHistory& history) {
  Watched* watched = find(joiner);
  if (watched == nullptr || !is_fresh(*watched, now)) return std::nullopt;
  const bool is_anyone_running = std::any_of(members.begin(), members.end(), [&](RankId member) {
    const Watched* known = find(member);
    return known != nullptr && is_fresh(*known, now) && !known->view.is_stopped;
  });
  const std::optional<Suspicion> suspicion =
      is_anyone_running ? suspect_joiner(*watched, history) : std::nullopt;
  if (!is_confirmed(watched->stopped_since, now, suspicion.has_value())) return std::nullopt;
  HangFinding finding = finding_of(joiner, *suspicion, "on its way to be a member");
  finding.may_act = suspicion->hang_class != HangClass::Traced;
  return finding;
}

// Needs no evidence of others, but that they run: when everything is stopped, it is not the rank.
void HangDetector::judge_stopped(Instant now, const Seen& members, const RunHistory& history,
                                 std::vector<HangFinding>& findings) {
  size_t silent = members.stale;
  for (Watched* each : members.fresh) {
    Watched& watched = *each;
    const RankId rank = watched.view.rank;
    if (const std::optional<Suspicion> traced = suspect_traced(watched, history)) {
      findings.push_back(finding_of(rank, *traced, "never acted on"));
      findings.back().may_act = false;
    }
    const std::optional<Suspicion> suspicion = suspect_stopped(watched, history);
    silent += suspicion ? 1 : 0;
    if (is_confirmed(watched.stopped_since, now, suspicion.has_value()))
      findings.push_back(finding_of(rank, *suspicion, "its library gives no beat"));
  }
  if (silent == members.fresh.size() + members.stale) findings.clear();
}

void HangDetector::judge_stuck(Instant now, const std::vector<Watched*>& members,
                               const RunHistory& history, std::vector<HangFinding>& findings) {
  const std::map<RankId, Instant> since = std::exchange(stuck_since_, {});
  Turn newest;
  for (const Watched* watched : members) newest = std::max(newest, watched->view.committed);
  std::map<RankId, Suspicion> suspects;
  size_t waiting = 0;
  Duration shortest_wait = Duration::max();
  for (const Watched* watched : members) {
    const RankView& view = watched->view;
    if (std::optional<Suspicion> suspicion = suspect_stuck(*watched, newest, history)) {
      suspects.emplace(view.rank, *std::move(suspicion));
    } else if (is_waiting(view.phase)) {
      ++waiting;
      shortest_wait =
          std::min(shortest_wait, watched->at - view.phase_since - watched->phase_credit);
    } else {
      return;  // it is busy, and may be so: nobody can be blamed yet
    }
  }
  const Duration limit = collective_limit(history);
  if (suspects.empty() && waiting > 1 && shortest_wait >= limit)
    findings.push_back(
        {.hang_class = HangClass::Stuck,
         .rank = std::nullopt,
         .may_act = true,
         .stay = shortest_wait,
         .limit = limit,
         .evidence = str("all ", waiting, " ranks have been in the collective of turn ", newest,
                         " for ", shortest_wait, ", limit ", limit)});
  // When most of them are away it is what the program does, not what a rank suffers.
  if (waiting == 0 || suspects.size() * 2 > members.size()) return;
  for (const auto& [rank, suspicion] : suspects) {
    const auto before = since.find(rank);
    const Instant first = before == since.end() ? now : before->second;
    stuck_since_[rank] = first;
    if (now - first >= kConfirmation)
      findings.push_back(
          finding_of(rank, suspicion, str(waiting, " others wait for it at turn ", newest)));
  }
}

}  // namespace paceline::recovery
