#include "cli/run_view.h"

#include <algorithm>
#include <cstdio>

#include "base/str.h"
#include "cli/report/run_record.h"

namespace paceline::cli {
namespace {

constexpr Duration kRateSpan = Duration::seconds(5);
constexpr size_t kMaxStatusMetrics = 3;

// "swap_spare" is the report's word; people read "swap spare".
std::string words(const char* name) {
  std::string text = name;
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

// The line with the first frames of its stack, "a < b < c < d" as "a < b < c < ...".
std::string innermost(const std::string& text) {
  constexpr int kFrames = 3;
  size_t end = 0;
  for (int i = 0; i < kFrames && end != std::string::npos; ++i) end = text.find(" < ", end + 1);
  return end == std::string::npos ? text : text.substr(0, end) + " < ...";
}

std::string decimal(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), value >= 100 ? "%.0f" : "%.4g", value);
  return text;
}

}  // namespace

std::string spoken(Duration duration) {
  char text[40];
  const double seconds = duration.in_seconds();
  if (seconds < 0.01)
    std::snprintf(text, sizeof(text), "%.1f ms", seconds * 1e3);
  else if (seconds < 1)
    std::snprintf(text, sizeof(text), "%.0f ms", seconds * 1e3);
  else
    std::snprintf(text, sizeof(text), "%.1f s", seconds);
  return text;
}

RunView::RunView(Terminal& terminal, Instant now)
    : terminal_(terminal), began_(now), last_said_(now) {}

void RunView::say(Instant now, Tone tone, const std::string& text) {
  last_said_ = now;
  terminal_.line(tone, text);
}

void RunView::note(Instant now, Tone tone, const std::string& text) { say(now, tone, text); }

void RunView::take(Instant now, const JobEvent& event) {
  if (const auto* started = std::get_if<JobStarted>(&event)) {
    world_ = *started;
    if (std::exchange(has_started_, true)) return;
    say(now, Tone::Faint,
        str("pace: starting ", counted(world_.ranks, "rank"), " on ", counted(world_.hosts, "host"),
            world_.spares == 0
                ? ""
                : str(", ", counted(world_.spares, world_.has_hot_spares ? "spare" : "cold spare")),
            ", ", counted(world_.micro_batches, "micro-batch"), " a step"));
  } else if (const auto* placed = std::get_if<RankPlaced>(&event)) {
    take_placed(*placed);
  } else if (const auto* output = std::get_if<OutputLine>(&event)) {
    take_output(now, *output);
  } else if (const auto* changed = std::get_if<IncidentChanged>(&event)) {
    take_incident(now, changed->incident);
  } else if (const auto* progress = std::get_if<JobProgress>(&event)) {
    take_progress(now, *progress);
  } else if (const auto* metric = std::get_if<RankMetric>(&event)) {
    if (metrics_.size() < kMaxStatusMetrics || metrics_.contains(metric->name))
      metrics_[metric->name] = {metric->step, metric->value};
  } else if (const auto* notice = std::get_if<Notice>(&event)) {
    say(now, Tone::Faint, str("pace: ", notice->text));
  } else if (const auto* ended = std::get_if<JobEnded>(&event)) {
    end_ = *ended;
  }
}

// Of where a rank's threads were, one line is enough here: the log and the report have them all.
void RunView::take_output(Instant now, const OutputLine& output) {
  const bool is_evidence = output.text.starts_with(kEvidencePrefix);
  if (is_evidence && !explained_.insert(output.rank).second) return;
  last_said_ = now;
  const auto host = hosts_of_ranks_.find(output.rank);
  terminal_.line(output.is_stderr ? Stream::Error : Stream::Output,
                 str("[", host == hosts_of_ranks_.end() ? "" : host->second + " ", "rank",
                     output.rank.slot, "] ", is_evidence ? innermost(output.text) : output.text));
}

void RunView::take_placed(const RankPlaced& placed) {
  hosts_of_ranks_[placed.rank] = placed.host_name;
  host_names_[placed.host] = placed.host_name;
  owners_[placed.rank.slot.value()] = placed.rank;
  is_spare_[placed.rank.slot.value()] = placed.is_spare;
}

void RunView::take_progress(Instant now, const JobProgress& progress) {
  progress_ = progress;
  recent_steps_.emplace_back(now, progress.step.value());
  while (recent_steps_.size() > 2 && now - recent_steps_.front().first > kRateSpan)
    recent_steps_.pop_front();
}

double RunView::steps_per_second() const {
  if (recent_steps_.size() < 2) return 0;
  const auto& [first_at, first] = recent_steps_.front();
  const auto& [last_at, last] = recent_steps_.back();
  if (last_at <= first_at || last < first) return 0;
  return static_cast<double>(last - first) / (last_at - first_at).in_seconds();
}

std::string RunView::who(const Incident& incident) const {
  std::string text;
  if (incident.rank) text = str("rank ", incident.rank->slot);
  if (incident.host) {
    const auto name = host_names_.find(*incident.host);
    text += str(text.empty() ? "" : " on ",
                name == host_names_.end() ? str("host", *incident.host) : name->second);
  }
  return text.empty() ? "the job" : text;
}

void RunView::take_incident(Instant now, const Incident& incident) {
  const auto known = incidents_.find(incident.id);
  const bool is_new = known == incidents_.end();
  const Incident known_before = is_new ? Incident{} : known->second;
  const bool was_recovered = known_before.recovered.has_value();
  incidents_[incident.id] = incident;
  if (terminal_.is_live()) {
    // The block shows it while it is open; what stays is one block, when it is over.
    if (incident.recovered && !was_recovered) show_whole(incident);
    return;
  }
  // The decision may follow the detection: it is told when its reason is known, and once.
  const bool was_decided = !is_new && !known_before.reason.empty();
  const bool is_decided = !incident.reason.empty();
  const std::string decision = str(words(name_of(incident.action)), " (", incident.reason, ")",
                                   incident.was_only_observed ? ", only observed" : "");
  if (is_new)
    say(now, Tone::Bad,
        str("incident ", incident.id, ": ", words(name_of(incident.kind)), ", ", who(incident),
            ", step ", incident.step, is_decided ? ": " + decision : ""));
  else if (is_decided && !was_decided)
    say(now, Tone::Plain, str("incident ", incident.id, ": ", decision));
  if (incident.recovered && !was_recovered)
    say(now, Tone::Good,
        str("incident ", incident.id, ": committing again ",
            spoken(*incident.recovered - incident.detected), " after detection, ",
            counted(incident.micro_batches_redone, "micro-batch"), " redone"));
}

void RunView::show_whole(const Incident& incident) {
  terminal_.line(Tone::Bad, str("incident ", incident.id, ": ", words(name_of(incident.kind)), ", ",
                                who(incident), ", step ", incident.step));
  terminal_.line(Tone::Plain, str("  seen    ", incident.evidence));
  terminal_.line(Tone::Plain,
                 str("  action  ", words(name_of(incident.action)),
                     incident.was_only_observed ? " (only observed)" : "", ": ", incident.reason));
  terminal_.line(incident.recovered ? Tone::Good : Tone::Plain,
                 incident.recovered
                     ? str("  result  committing again ",
                           spoken(*incident.recovered - incident.detected), " after detection, ",
                           counted(incident.micro_batches_redone, "micro-batch"), " redone")
                     : std::string("  result  not recovered"));
}

std::string RunView::progress_text(Instant now) const {
  if (!progress_) {
    const auto placed = owners_.size();
    const uint32_t slots = world_.ranks;
    if (!has_started_) return str("waiting for hosts, ", spoken(now - began_));
    return str("waiting for the first step, ", placed, " of ", counted(slots, "rank"), " placed, ",
               spoken(now - began_));
  }
  const uint32_t standing_by =
      progress_->members - std::min(progress_->members, progress_->working);
  return str("step ", progress_->step, ", ", decimal(steps_per_second()), " steps/s, ",
             progress_->working, " working",
             standing_by == 0 ? "" : str(", ", counted(standing_by, "spare")));
}

void RunView::refresh(Instant now) {
  if (!terminal_.is_live()) {
    if (now - last_said_ >= kLongestSilence && !end_)
      say(now, Tone::Faint, "pace: " + progress_text(now));
    return;
  }
  std::vector<std::string> lines{"pace: " + progress_text(now)};
  std::string metrics;
  for (const auto& [name, value] : metrics_)
    metrics += str(metrics.empty() ? "      " : ", ", name, " ", decimal(value.second));
  if (!metrics.empty()) lines.push_back(metrics);
  if (!incidents_.empty()) {
    const Incident& last = incidents_.rbegin()->second;
    lines.push_back(str("      incident ", last.id, ": ", words(name_of(last.kind)), ", ",
                        who(last), ": ", words(name_of(last.action)), ", ",
                        last.recovered
                            ? "over after " + spoken(*last.recovered - last.detected)
                            : "open since " + spoken(std::max(now - last.detected, Duration()))));
  }
  terminal_.set_status(std::move(lines));
}

void RunView::finish(Instant now) {
  terminal_.clear_status();
  if (terminal_.is_live())
    for (const auto& [id, incident] : incidents_)
      if (!incident.recovered) show_whole(incident);
  if (!end_) return;
  const bool is_done = end_->verdict == Verdict::Completed;
  char digest[20];
  std::snprintf(digest, sizeof(digest), "%016llx",
                static_cast<unsigned long long>(end_->state_digest));
  terminal_.line(is_done ? Tone::Good : Tone::Bad,
                 str("pace: ", name_of(end_->verdict), " at step ", end_->step, " after ",
                     spoken(now - began_), end_->reason.empty() ? "" : ": " + end_->reason, "; ",
                     counted(incidents_.size(), "incident"), ", state digest ", digest));
}

}  // namespace paceline::cli
