#include "cli/sim/sim_report.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace paceline::cli {
namespace {

using nlohmann::ordered_json;

// Rows that are named one by one in the table; JSON has all.
constexpr size_t kRowsShown = 10;

template <class... Values>
std::string line(const char* format, Values... values) {
  char text[240];
  std::snprintf(text, sizeof(text), format, values...);
  return text;
}

double hours(double seconds) { return seconds / 3600; }

std::string policy_line(const PolicyOutcome& outcome) {
  const sim::Summary& s = outcome.summary;
  return line(
      "%-10s %8zu %9.3f %9.3f %9.3f %9.3f %8.1f%% %8.1f%% %8.1f%% %8.1f%% %9llu %9.0f %10.0f\n",
      outcome.policy.c_str(), s.ended, hours(s.completion.mean), hours(s.wait.mean),
      hours(s.wait.p99), hours(s.wait.max), 100 * s.allocation, 100 * s.idle_while_waiting,
      100 * s.fragmentation, 100 * s.lost, static_cast<unsigned long long>(s.evictions),
      static_cast<double>(outcome.starts) / std::max(outcome.wall_s, 1e-9), outcome.plan_us_p99);
}

std::string size_lines(const PolicyOutcome& outcome) {
  std::string text;
  for (const sim::SizeClass& size : outcome.summary.sizes)
    text += line("%-10s %-12s %8zu %9.3f %9.3f %9.3f %9.3f\n", outcome.policy.c_str(),
                 size.name.c_str(), size.wait.count, hours(size.wait.mean), hours(size.wait.p50),
                 hours(size.wait.p99), hours(size.wait.max));
  return text;
}

std::string queue_lines(const PolicyOutcome& outcome) {
  std::string text;
  for (const sim::QueueFigures& queue : outcome.summary.queues)
    text += line("%-10s %-16s %8zu %12.1f %12.1f %9.3f %9.3f\n", outcome.policy.c_str(),
                 queue.name.c_str(), queue.wait.count, queue.gpu_hours, queue.gpu_hours_due,
                 hours(queue.wait.mean), hours(queue.wait.p99));
  return text;
}

std::string row_lines(const std::string& title, const std::vector<sim::BadRow>& rows) {
  if (rows.empty()) return "";
  std::string text = line("%s: %zu\n", title.c_str(), rows.size());
  for (size_t i = 0; i < std::min(rows.size(), kRowsShown); ++i)
    text += str("  line ", rows[i].line, ": ", rows[i].reason, "\n");
  if (rows.size() > kRowsShown)
    text += str("  and ", rows.size() - kRowsShown, " more; -o json names all\n");
  return text;
}

double rounded(double value) { return std::round(value * 1e6) / 1e6; }

ordered_json spread_json(const sim::Spread& spread) {
  return {{"count", spread.count},
          {"mean", rounded(spread.mean)},
          {"p50", rounded(spread.p50)},
          {"p99", rounded(spread.p99)},
          {"max", rounded(spread.max)}};
}

ordered_json rows_json(const std::vector<sim::BadRow>& rows) {
  ordered_json json = ordered_json::array();
  for (const sim::BadRow& row : rows) json.push_back({{"line", row.line}, {"reason", row.reason}});
  return json;
}

std::string hex(uint64_t value) { return line("%016llx", static_cast<unsigned long long>(value)); }

ordered_json policy_json(const PolicyOutcome& outcome) {
  const sim::Summary& s = outcome.summary;
  ordered_json json = {{"policy", outcome.policy},
                       {"digest", hex(outcome.digest)},
                       {"jobs_ended", s.ended},
                       {"completion_s", spread_json(s.completion)},
                       {"wait_s", spread_json(s.wait)},
                       {"hours", rounded(s.hours)},
                       {"allocation", rounded(s.allocation)},
                       {"evictions", s.evictions},
                       {"lost_to_evictions", rounded(s.lost)},
                       {"idle_while_waiting", rounded(s.idle_while_waiting)},
                       {"fragmentation", rounded(s.fragmentation)}};
  json["sizes"] = ordered_json::array();
  for (const sim::SizeClass& size : s.sizes)
    json["sizes"].push_back({{"gpus", size.name},
                             {"wait_s", spread_json(size.wait)},
                             {"completion_s", spread_json(size.completion)}});
  json["queues"] = ordered_json::array();
  for (const sim::QueueFigures& queue : s.queues)
    json["queues"].push_back({{"name", queue.name},
                              {"gpu_hours", rounded(queue.gpu_hours)},
                              {"gpu_hours_due", rounded(queue.gpu_hours_due)},
                              {"wait_s", spread_json(queue.wait)}});
  json["refused"] = rows_json(outcome.refused);
  json["never_ran"] = ordered_json::array();
  for (const auto& [trace_line, why] : outcome.left_over)
    json["never_ran"].push_back({{"line", trace_line}, {"reason", why}});
  json["speed"] = {{"plans", outcome.plans},
                   {"unfinished_plans", outcome.unfinished_plans},
                   {"starts", outcome.starts},
                   {"wall_s", rounded(outcome.wall_s)},
                   {"plan_us_p50", rounded(outcome.plan_us_p50)},
                   {"plan_us_p99", rounded(outcome.plan_us_p99)},
                   {"plan_us_max", rounded(outcome.plan_us_max)}};
  return json;
}

}  // namespace

std::string table_of(const SimOutcome& outcome) {
  std::string text = line("%zu jobs of a %s trace; times in hours\n\n", outcome.jobs,
                          outcome.trace_format.c_str());
  text += line("%-10s %8s %9s %9s %9s %9s %9s %9s %9s %9s %9s %9s %10s\n", "policy", "ended", "JCT",
               "wait", "wait p99", "wait max", "allocated", "idle+wait", "in pieces", "lost",
               "evictions", "starts/s", "plan p99us");
  for (const PolicyOutcome& policy : outcome.policies) text += policy_line(policy);
  text += line("\n%-10s %-12s %8s %9s %9s %9s %9s\n", "policy", "GPUs", "jobs", "wait", "wait p50",
               "wait p99", "wait max");
  for (const PolicyOutcome& policy : outcome.policies) text += size_lines(policy);
  text += line("\n%-10s %-16s %8s %12s %12s %9s %9s\n", "policy", "queue", "jobs", "GPU-hours",
               "due", "wait", "wait p99");
  for (const PolicyOutcome& policy : outcome.policies) text += queue_lines(policy);
  text += "\n" + row_lines("rows that cannot be read", outcome.bad_rows);
  for (const PolicyOutcome& policy : outcome.policies) {
    text += row_lines(policy.policy + ": jobs refused", policy.refused);
    std::vector<sim::BadRow> never;
    for (const auto& [trace_line, why] : policy.left_over) never.push_back({trace_line, why});
    text += row_lines(policy.policy + ": jobs that never ran", never);
  }
  return text;
}

std::string json_of(const SimOutcome& outcome) {
  ordered_json json = {{"version", "0.1.0"},
                       {"trace", outcome.trace_format},
                       {"jobs", outcome.jobs},
                       {"outside_window", outcome.outside_window},
                       {"bad_rows", rows_json(outcome.bad_rows)}};
  json["policies"] = ordered_json::array();
  for (const PolicyOutcome& policy : outcome.policies)
    json["policies"].push_back(policy_json(policy));
  return json.dump(2) + "\n";
}

}  // namespace paceline::cli
