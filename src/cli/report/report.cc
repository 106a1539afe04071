#include "cli/report/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/str.h"
#include "cli/report/throughput.h"

namespace paceline::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kVersion = "0.1.0";

std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

// Milliseconds are what people compare; three decimals of a second keep files readable.
double rounded(double value, double unit = 1e-3) { return std::round(value / unit) * unit; }

ordered_json host_of(const RunRecord& record, const Incident& incident) {
  if (!incident.host) return nullptr;
  const auto name = record.host_names().find(*incident.host);
  return name == record.host_names().end() ? str("host", *incident.host) : name->second;
}

ordered_json alternatives_json(const Incident& incident) {
  ordered_json alternatives = ordered_json::array();
  for (const Alternative& alternative : incident.alternatives)
    alternatives.push_back({{"action", name_of(alternative.action)},
                            {"cost_rank_s", static_cast<double>(alternative.cost_rank_ms) / 1e3},
                            {"why", alternative.why}});
  return alternatives;
}

ordered_json incident_json(const RunRecord& record, const Incident& incident,
                           const InjectedFault* fault) {
  const auto seconds = [&record](Instant at) {
    return rounded((at - record.began()).in_seconds(), 1e-6);
  };
  const auto milliseconds = [](Duration d) { return rounded(d.in_seconds() * 1e3); };
  // What the user lived through begins with the fault; without one, with its detection.
  const Instant origin = fault != nullptr ? fault->at : incident.detected;
  ordered_json json;
  json["id"] = incident.id;
  json["kind"] = name_of(incident.kind);
  json["rank"] = incident.rank ? ordered_json(incident.rank->slot.value()) : ordered_json();
  json["incarnation"] =
      incident.rank ? ordered_json(incident.rank->incarnation.value()) : ordered_json();
  json["host"] = host_of(record, incident);
  json["hang_class"] = name_of(incident.hang_class);
  json["fault"] = fault != nullptr ? ordered_json(fault->text) : ordered_json();
  json["step"] = incident.step.value();
  json["injected_at_s"] = fault != nullptr ? ordered_json(seconds(fault->at)) : ordered_json();
  json["detected_at_s"] = seconds(incident.detected);
  json["recovered_at_s"] =
      incident.recovered ? ordered_json(seconds(*incident.recovered)) : ordered_json();
  const auto since_origin = [&](const std::optional<Instant>& when) {
    return when ? ordered_json(milliseconds(*when - origin)) : ordered_json();
  };
  json["detect_ms"] =
      fault != nullptr ? ordered_json(milliseconds(incident.detected - fault->at)) : ordered_json();
  json["abort_ms"] = since_origin(incident.aborted);
  json["recover_ms"] = since_origin(incident.recovered);
  json["micro_batches_redone"] = incident.micro_batches_redone;
  json["evidence"] = incident.evidence;
  json["threads"] = incident.rank ? record.threads_of(*incident.rank) : std::vector<std::string>{};
  json["action"] = name_of(incident.action);
  json["reason"] = incident.reason;
  json["only_observed"] = incident.was_only_observed;
  json["alternatives"] = alternatives_json(incident);
  return json;
}

ordered_json goodput_json(const RunRecord& record) {
  const Goodput goodput = record.goodput().value_or(Goodput{});
  ordered_json categories;
  double total = 0;
  const auto add = [&categories, &total](const char* name, Duration time) {
    categories[name] = time.in_seconds();
    total += time.in_seconds();
  };
  add("useful", goodput.useful);
  add("wait", goodput.wait);
  add("redone", goodput.redone);
  add("repair", goodput.repair);
  add("heal", goodput.heal);
  add("startup", goodput.startup);
  add("empty_slot", goodput.empty_slot);
  return {{"wall_s", goodput.wall.in_seconds()},
          {"fraction", total > 0 ? rounded(goodput.useful.in_seconds() / total, 1e-4) : 0.0},
          {"categories", categories}};
}

// Each committed step has all V micro-batches exactly once: no rank votes for a step unless the sum
// of the tags of its contributions is that of all V, but for those that its epoch skips. What is
// counted here is therefore V less the skipped for each committed step; more measured than that
// would be a duplicate.
ordered_json samples_json(const RunRecord& record) {
  const uint32_t micro_batches = record.world().micro_batches;
  uint64_t consumed = 0, duplicated = 0, skipped = 0;
  for (const auto& [number, turn] : record.turns()) {
    if (turn.is_flagged) continue;
    const uint32_t wanted = micro_batches - std::min(micro_batches, turn.skipped);
    consumed += wanted;
    skipped += turn.skipped;
    if (turn.micro_batches > wanted) duplicated += turn.micro_batches - wanted;
  }
  return {{"consumed", consumed}, {"duplicated", duplicated}, {"skipped", skipped}};
}

ordered_json steps_json(const RunRecord& record) {
  uint64_t committed = 0, flagged = 0;
  for (const auto& [number, turn] : record.turns()) ++(turn.is_flagged ? flagged : committed);
  return {{"committed", committed},
          {"repeated", record.steps_repeated()},
          {"measuring_rounds", flagged}};
}

ordered_json metrics_json(const RunRecord& record) {
  ordered_json metrics = ordered_json::object();
  for (const auto& [name, values] : record.metrics()) {
    ordered_json points = ordered_json::array();
    for (const auto& [step, value] : values)
      points.push_back({step, std::isfinite(value) ? ordered_json(value) : ordered_json()});
    metrics[name] = std::move(points);
  }
  return metrics;
}

ordered_json faults_json(const RunRecord& record) {
  ordered_json faults = ordered_json::array();
  for (const InjectedFault& fault : record.faults())
    faults.push_back(
        {{"kind", fault.kind},
         {"text", fault.text},
         {"rank", fault.rank ? ordered_json(fault.rank->slot.value()) : ordered_json()},
         {"host", fault.host_name},
         {"step", fault.step.value()},
         {"at_s", rounded((fault.at - record.began()).in_seconds(), 1e-6)}});
  return faults;
}

ordered_json controllers_json(const RunRecord& record) {
  const auto seconds = [&](Instant at) {
    return rounded((at - record.began()).in_seconds(), 1e-6);
  };
  ordered_json controllers = ordered_json::array();
  for (const LaterController& later : record.later_controllers())
    controllers.push_back(
        {{"started_at_s", seconds(later.started)},
         {"adopted_at_s", later.adopted ? ordered_json(seconds(*later.adopted)) : ordered_json()}});
  return controllers;
}

Status write_whole(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path unfinished = path.string() + ".unfinished";
  {
    std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
    file << text;
    file.flush();
    if (!file)
      return Failure{ErrorCode::Io,
                     str("cannot write ", unfinished.string(), "; is the disk full?")};
  }
  std::error_code error;
  std::filesystem::rename(unfinished, path, error);
  if (error)
    return Failure{ErrorCode::Io, str("cannot write ", path.string(), ": ", error.message())};
  return {};
}

}  // namespace

ordered_json report_json(const RunRecord& record) {
  const JobStarted& world = record.world();
  const Throughput throughput = throughput_of(record);
  const auto faults = record.matched_faults();
  ordered_json incidents = ordered_json::array();
  for (const auto& [id, incident] : record.incidents()) {
    const auto fault = faults.find(id);
    incidents.push_back(
        incident_json(record, incident, fault == faults.end() ? nullptr : &fault->second));
  }
  ordered_json json;
  json["version"] = kVersion;
  json["job"] = record.job_name();
  json["verdict"] = record.end() ? name_of(record.end()->verdict) : "failed";
  json["exit_code"] = record.exit_code();
  json["reason"] = record.end() ? record.end()->reason : "the run ended without a verdict";
  json["world"] = {{"hosts", world.hosts},
                   {"ranks", world.ranks},
                   {"spares", world.spares},
                   {"spare_mode", world.has_hot_spares ? "hot" : "cold"},
                   {"micro_batches", world.micro_batches}};
  json["steps"] = steps_json(record);
  json["samples"] = samples_json(record);
  json["exact"] = world.reduce == ReduceMode::Exact && json["samples"]["skipped"] == 0;
  json["state_digest"] = record.end() ? ordered_json(hex(record.end()->state_digest)) : nullptr;
  json["throughput"] = {{"unit", "steps/s"},
                        {"mean", rounded(throughput.mean, 1e-4)},
                        {"healthy_mean", rounded(throughput.healthy_mean, 1e-4)}};
  json["goodput"] = goodput_json(record);
  json["incidents"] = std::move(incidents);
  json["faults"] = faults_json(record);
  json["controllers"] = controllers_json(record);
  json["metrics"] = metrics_json(record);
  return json;
}

std::string steps_csv(const RunRecord& record) {
  std::string text = "turn,step,epoch,at_s,step_ms,micro_batches,flagged,compute_s,wait_s\n";
  std::optional<Instant> before;
  for (const auto& [number, turn] : record.turns()) {
    char line[200];
    const double step_ms = before ? (turn.at - *before).in_seconds() * 1e3 : 0;
    std::snprintf(line, sizeof(line), "%llu,%llu,%u,%.6f,%.3f,%u,%d,%.6f,%.6f\n",
                  static_cast<unsigned long long>(number),
                  static_cast<unsigned long long>(turn.step.value()), turn.epoch.value(),
                  (turn.at - record.began()).in_seconds(), step_ms, turn.micro_batches,
                  turn.is_flagged ? 1 : 0, turn.compute.in_seconds(), turn.wait.in_seconds());
    text += line;
    before = turn.at;
  }
  return text;
}

Status write_report(const RunRecord& record, const std::string& directory) {
  const std::filesystem::path path(directory);
  std::error_code error;
  std::filesystem::create_directories(path, error);
  // Output of a program may hold bytes that are no UTF-8; they are replaced rather than refused.
  const std::string json =
      report_json(record).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  TRY(write_whole(path / "report.json", json));
  TRY(write_whole(path / "steps.csv", steps_csv(record)));
  return write_whole(path / "report.html", report_html(record));
}

}  // namespace paceline::cli
