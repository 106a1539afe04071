#include "cli/report/throughput.h"

#include <algorithm>
#include <utility>

namespace paceline::cli {
namespace {

using Span = std::pair<Instant, Instant>;

// When something was wrong, merged and in order: from the fault (or its detection) to the commit
// that ended it. An incident that never recovered lasts to the end.
std::vector<Span> troubled_spans(const RunRecord& record) {
  const auto faults = record.matched_faults();
  std::vector<Span> spans;
  for (const auto& [id, incident] : record.incidents()) {
    const auto fault = faults.find(id);
    const Instant from = fault == faults.end() ? incident.detected : fault->second.at;
    spans.emplace_back(from, incident.recovered.value_or(record.ended()));
  }
  std::sort(spans.begin(), spans.end());
  std::vector<Span> merged;
  for (const Span& span : spans) {
    if (!merged.empty() && span.first <= merged.back().second)
      merged.back().second = std::max(merged.back().second, span.second);
    else
      merged.push_back(span);
  }
  return merged;
}

bool overlaps(const std::vector<Span>& spans, Instant from, Instant until) {
  return std::any_of(spans.begin(), spans.end(), [from, until](const Span& span) {
    return span.first < until && from < span.second;
  });
}

double per_second(uint64_t steps, Duration time) {
  return time > Duration() ? static_cast<double>(steps) / time.in_seconds() : 0;
}

// Adds one step to the slices between `begin` and `end`, each by its share of that time: whole
// steps in short slices would be a zigzag.
void spread(double begin, double end, std::vector<double>& steps) {
  for (auto i = static_cast<size_t>(begin); i < steps.size() && static_cast<double>(i) < end; ++i) {
    const auto slice = static_cast<double>(i);
    steps[i] += (std::min(end, slice + 1) - std::max(begin, slice)) / (end - begin);
  }
}

}  // namespace

Throughput throughput_of(const RunRecord& record) {
  const std::vector<Span> troubled = troubled_spans(record);
  const TurnRecord* before = nullptr;
  uint64_t steps = 0, healthy_steps = 0;
  Duration time, healthy_time;
  for (const auto& [number, turn] : record.turns()) {
    if (before != nullptr && turn.at >= before->at) {
      const uint64_t counted = turn.is_flagged ? 0 : 1;
      steps += counted;
      time += turn.at - before->at;
      if (!overlaps(troubled, before->at, turn.at)) {
        healthy_steps += counted;
        healthy_time += turn.at - before->at;
      }
    }
    before = &turn;
  }
  return {.mean = per_second(steps, time), .healthy_mean = per_second(healthy_steps, healthy_time)};
}

std::vector<RatePoint> rates_of(const RunRecord& record, size_t slices) {
  std::vector<RatePoint> points;
  if (record.turns().size() < 2 || slices == 0) return points;
  const Instant first = record.turns().begin()->second.at;
  const Instant last = record.turns().rbegin()->second.at;
  const double slice_s = std::max((last - first).in_seconds() / static_cast<double>(slices), 1e-9);
  const auto slices_since_first = [&](Instant at) { return (at - first).in_seconds() / slice_s; };
  std::vector<double> steps(slices, 0);
  Instant before = first;
  for (const auto& [number, turn] : record.turns()) {
    if (turn.at <= before) continue;
    const double begin = slices_since_first(std::exchange(before, turn.at));
    if (!turn.is_flagged) spread(begin, slices_since_first(turn.at), steps);
  }
  const double first_s = (first - record.began()).in_seconds();
  for (size_t i = 0; i < slices; ++i)
    points.push_back({.at_s = first_s + (static_cast<double>(i) + 0.5) * slice_s,
                      .steps_per_s = steps[i] / slice_s});
  return points;
}

}  // namespace paceline::cli
