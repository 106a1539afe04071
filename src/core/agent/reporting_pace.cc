#include "core/agent/reporting_pace.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/check.h"

namespace paceline::agent {
namespace {

// After a disturbance: a repair with its consequences.
constexpr Duration kSettling = Duration::seconds(2);
// The library's own thread beats every 50 ms.
constexpr Duration kBeatLate = Duration::milliseconds(150);
// So many turns tell how long one takes.
constexpr size_t kTurns = 8;
// A turn that is open for longer than this many usual ones, and a little, is unusual. The first
// limit of a detector is at twice as many, and 500 ms.
constexpr int64_t kUsualTurns = 2;
constexpr Duration kUsualMargin = Duration::milliseconds(100);

bool is_in_its_loop(RankPhase phase) {
  return phase == RankPhase::Compute || phase == RankPhase::Outside || phase == RankPhase::Wait;
}

// Of a few; the upper one of two in the middle.
Duration median(const std::deque<Duration>& values) {
  std::vector<Duration> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace

ReportingPace::ReportingPace(Windows windows, Instant now)
    : windows_(windows), last_(now), next_(now + windows.lively), lively_until_(now + kSettling) {
  CHECK(windows.lively > Duration() && windows.lively <= windows.calm, windows.lively);
}

void ReportingPace::disturbed(Instant now) {
  lively_until_ = now + kSettling;
  // Never in the past: how late a reading is counts from here.
  next_ = std::min(next_, std::max(last_ + windows_.lively, now));
}

void ReportingPace::read(Instant now, const RingsRead& rings) {
  learn(now, rings);
  const Duration since_last = std::max(now - last_, windows_.lively / 2);
  bool is_calm = now >= lively_until_;
  for (const RankView& view : rings.views)
    is_calm = is_calm && is_as_usual(now, view) && is_little(since_last, turns_.at(view.rank));
  last_ = now;
  next_ = now + (is_calm ? windows_.calm : windows_.lively);
}

void ReportingPace::learn(Instant now, const RingsRead& rings) {
  std::set<RankId> present;
  for (const RankView& view : rings.views) present.insert(view.rank);
  std::erase_if(turns_, [&](const auto& entry) { return !present.contains(entry.first); });
  for (const RankId rank : present) {
    Turns& turns = turns_[rank];
    turns.samples = turns.metrics = 0;
  }
  for (const auto& [rank, sample] : rings.samples) {
    const auto found = turns_.find(rank);
    if (found == turns_.end()) continue;  // the last words of a process that has ended
    Turns& turns = found->second;
    ++turns.samples;
    // A broken rank may have written any time into its ring.
    if (sample.committed <= turns.committed || sample.committed > now) continue;
    if (turns.committed != Instant()) turns.lengths.push_back(sample.committed - turns.committed);
    if (turns.lengths.size() > kTurns) turns.lengths.pop_front();
    turns.committed = sample.committed;
  }
  for (const RankMetric& metric : rings.metrics)
    if (const auto found = turns_.find(metric.rank); found != turns_.end()) ++found->second.metrics;
}

bool ReportingPace::is_as_usual(Instant now, const RankView& view) const {
  if (!is_in_its_loop(view.phase) || view.refused_since != Instant()) return false;
  if (view.is_stopped || view.is_traced) return false;
  if (view.last_beat < now - kBeatLate || view.last_beat > now) return false;
  const Turns& turns = turns_.at(view.rank);
  if (turns.lengths.size() < kTurns) return false;
  return now - turns.committed <= median(turns.lengths) * kUsualTurns + kUsualMargin;
}

// Would a quiet window at this rate leave the ring room?
bool ReportingPace::is_little(Duration since_last, const Turns& turns) const {
  const auto fits = [&](size_t count, size_t bound) {
    return windows_.calm * static_cast<int64_t>(count) <= since_last * static_cast<int64_t>(bound);
  };
  return fits(turns.samples, kQuietSamples) && fits(turns.metrics, kQuietMetrics);
}

}  // namespace paceline::agent
