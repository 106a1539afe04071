#include "sim/workload/summary.h"

#include <algorithm>
#include <array>

namespace paceline::sim {
namespace {

struct Bounds {
  const char* name;
  int64_t low, high;  // GPUs in thousandths: above low, up to high
};

constexpr std::array<Bounds, 7> kSizes = {{{"none", -1, 0},
                                           {"below 1", 0, 999},
                                           {"1", 999, 1'000},
                                           {"2 to 7", 1'000, 7'999},
                                           {"8 to 15", 7'999, 15'999},
                                           {"16 to 63", 15'999, 63'999},
                                           {"64 and more", 63'999, INT64_MAX}}};

double ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

double hours(int64_t milliseconds) { return static_cast<double>(milliseconds) / 3.6e6; }

// Waits (every second not running, repeated work included) and completions of the jobs that `takes`
// says belong together.
struct Times {
  std::vector<Duration> waits, completions;
};
template <class Predicate>
Times times_of(const Replay& replay, const Trace& trace, Predicate takes) {
  Times times;
  for (const JobRecord& job : replay.jobs()) {
    if (!job.started || job.ended > replay.totals().end || !takes(job)) continue;
    const Instant submitted = Instant() + trace.jobs[job.trace_index].submitted;
    times.waits.push_back(job.ended - submitted - trace.jobs[job.trace_index].duration);
    times.completions.push_back(job.ended - submitted);
  }
  return times;
}

}  // namespace

Spread spread_of(std::vector<Duration> values) {
  Spread spread{.count = values.size()};
  if (values.empty()) return spread;
  std::sort(values.begin(), values.end());
  const auto at_percent = [&values](size_t percent) {
    const size_t rank = (values.size() * percent + 99) / 100;
    return values[std::max<size_t>(rank, 1) - 1].in_seconds();
  };
  for (const Duration value : values) spread.mean += value.in_seconds();
  spread.mean /= static_cast<double>(values.size());
  spread.p50 = at_percent(50);
  spread.p99 = at_percent(99);
  spread.max = values.back().in_seconds();
  return spread;
}

Summary summary_of(const Replay& replay, const Trace& trace) {
  Summary summary;
  const Times all = times_of(replay, trace, [](const JobRecord&) { return true; });
  summary.completion = spread_of(all.completions);
  summary.wait = spread_of(all.waits);
  summary.ended = replay.ended_count();
  for (const Bounds& size : kSizes) {
    const Times times = times_of(replay, trace, [&size](const JobRecord& job) {
      return job.gpu_milli > size.low && job.gpu_milli <= size.high;
    });
    if (times.waits.empty()) continue;
    summary.sizes.push_back({size.name, spread_of(times.waits), spread_of(times.completions)});
  }
  for (const auto& [name, use] : replay.use()) {
    const Times times =
        times_of(replay, trace, [&name = name](const JobRecord& job) { return job.queue == name; });
    summary.queues.push_back({name, hours(use.gpu_milliseconds_held),
                              hours(use.gpu_milliseconds_due), spread_of(times.waits)});
  }
  const ReplayTotals& totals = replay.totals();
  summary.hours = hours((totals.end - Instant()).in_milliseconds());
  summary.lost = ratio(totals.gpu_ms_lost, totals.gpu_ms_there);
  summary.evictions = totals.evictions;
  summary.allocation = ratio(totals.gpu_ms_held, totals.gpu_ms_there);
  summary.idle_while_waiting = ratio(totals.gpu_ms_idle_while_waiting, totals.gpu_ms_there);
  summary.fragmentation = ratio(totals.gpu_ms_free_in_pieces, totals.gpu_ms_free);
  return summary;
}

}  // namespace paceline::sim
