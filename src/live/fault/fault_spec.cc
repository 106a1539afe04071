#include "live/fault/fault_spec.h"

#include <array>
#include <charconv>
#include <utility>

#include "base/str.h"

namespace paceline::fault {
namespace {

constexpr std::array<std::pair<std::string_view, FaultKind>, 11> kKinds{{
    {"kill", FaultKind::Kill},
    {"stop", FaultKind::Stop},
    {"hang", FaultKind::Hang},
    {"spin", FaultKind::Spin},
    {"skip", FaultKind::Skip},
    {"slow", FaultKind::Slow},
    {"lose-host", FaultKind::LoseHost},
    {"kill-agent", FaultKind::KillAgent},
    {"kill-controller", FaultKind::KillController},
    {"corrupt", FaultKind::Corrupt},
    {"poison", FaultKind::Poison},
}};

constexpr std::array<std::pair<std::string_view, FaultPhase>, 7> kPhases{{
    {"any", FaultPhase::Any},
    {"compute", FaultPhase::Compute},
    {"reduce", FaultPhase::Reduce},
    {"commit", FaultPhase::Commit},
    {"prepare", FaultPhase::Prepare},
    {"heal", FaultPhase::Heal},
    {"trial", FaultPhase::Trial},
}};

template <class Table>
std::string names_in(const Table& table) {
  std::string names;
  for (const auto& [name, value] : table) names += str(names.empty() ? "" : ", ", name);
  return names;
}

Error bad(std::string_view fault, std::string_view what, std::string_view remedy) {
  return {ErrorCode::InvalidArgument, str("fault '", fault, "': ", what, "; ", remedy)};
}

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "250us", "300ms", "10s", "1.5s"; at most a day, so that no sum of times overflows.
std::optional<Duration> duration_in(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 3> kUnits{
      {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
  for (const auto& [unit, nanoseconds] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const auto value = number_in<double>(text.substr(0, text.size() - unit.size()));
    if (!value || !(*value >= 0) || *value * nanoseconds > 86400e9) return std::nullopt;
    return Duration::nanoseconds(static_cast<int64_t>(*value * nanoseconds));
  }
  return std::nullopt;
}

Status take_duration(FaultSpec& spec, std::string_view value) {
  if (value == "ever") {
    spec.lasts_for_ever = true;
    return {};
  }
  spec.lasts = duration_in(value);
  if (!spec.lasts)
    return bad(spec.text, str("for=", value, " is no duration"), "write for=500ms, 10s or ever");
  return {};
}

Status take_option(FaultSpec& spec, std::string_view name, std::string_view value) {
  const auto not_a_number = [&spec, name, value] {
    return bad(spec.text, str(name, "=", value, " is no such number"),
               str("write ", name, "= and a whole number of 0 or more"));
  };
  if (name == "step") {
    const auto step = number_in<uint64_t>(value);
    if (!step) return not_a_number();
    spec.step = *step;
  } else if (name == "rank") {
    spec.rank = number_in<uint32_t>(value);
    if (!spec.rank) return not_a_number();
  } else if (name == "micro_batch") {
    spec.micro_batch = number_in<uint32_t>(value);
    if (!spec.micro_batch) return not_a_number();
  } else if (name == "after_us") {
    const auto after = number_in<uint32_t>(value);
    if (!after) return not_a_number();
    spec.after = Duration::microseconds(*after);
  } else if (name == "after_ms") {
    const auto after = number_in<uint32_t>(value);
    if (!after) return not_a_number();
    spec.after_start = Duration::milliseconds(*after);
  } else if (name == "factor") {
    const auto factor = number_in<double>(value);
    if (!factor || !(*factor > 1 && *factor <= 1000))
      return bad(spec.text, str("factor=", value, " is out of range"), "write 1.1 to 1000");
    spec.factor = *factor;
  } else if (name == "for") {
    return take_duration(spec, value);
  } else if (name == "phase") {
    for (const auto& [phase_name, phase] : kPhases) {
      if (phase_name != value) continue;
      spec.phase = phase;
      return {};
    }
    return bad(spec.text, str("unknown phase '", value, "'"), "known: " + names_in(kPhases));
  } else {
    return bad(spec.text, str("unknown option '", name, "'"),
               "known: step, after_ms, rank, phase, after_us, for, factor, micro_batch");
  }
  return {};
}

// Without steps only what needs neither a phase nor the program's help.
bool works_by_time(const FaultSpec& spec) {
  switch (spec.kind) {
    case FaultKind::Kill:
    case FaultKind::Stop:
    case FaultKind::Slow:
    case FaultKind::LoseHost:
    case FaultKind::KillAgent:
    case FaultKind::KillController:
      return spec.phase == FaultPhase::Any;
    default:
      return false;
  }
}

Result<FaultSpec> checked(FaultSpec spec, bool has_step) {
  const std::string_view kind = name_of(spec.kind);
  const bool is_for_all = spec.kind == FaultKind::KillController || spec.kind == FaultKind::Corrupt;
  if (has_step == spec.after_start.has_value())
    return bad(spec.text, has_step ? "both step and after_ms" : "no step",
               str("write ", kind, "@step=40:rank=3"));
  if (spec.after_start && !works_by_time(spec))
    return bad(spec.text, "cannot strike by time alone", str("write ", kind, "@step=40:rank=3"));
  if (!spec.rank && !is_for_all)
    return bad(spec.text, "no rank", str("write ", kind, "@step=", spec.step, ":rank=3"));
  return spec;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

}  // namespace

std::string_view name_of(FaultKind kind) {
  for (const auto& [name, value] : kKinds)
    if (value == kind) return name;
  return "unknown";
}

std::string_view name_of(FaultPhase phase) {
  for (const auto& [name, value] : kPhases)
    if (value == phase) return name;
  return "unknown";
}

Result<FaultSpec> parse_fault(std::string_view text) {
  FaultSpec spec;
  spec.text = std::string(text);
  const size_t at = text.find('@');
  const std::string_view kind_name = text.substr(0, at);
  bool is_known = false;
  for (const auto& [name, kind] : kKinds) {
    if (name != kind_name) continue;
    spec.kind = kind;
    is_known = true;
  }
  if (!is_known)
    return bad(text, str("unknown kind '", kind_name, "'"), "known: " + names_in(kKinds));

  std::string_view rest = at == std::string_view::npos ? "" : text.substr(at + 1);
  bool has_step = false;
  while (!rest.empty()) {
    const size_t end = rest.find_first_of(":,");
    const std::string_view option = rest.substr(0, end);
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
    const size_t equals = option.find('=');
    if (equals == std::string_view::npos)
      return bad(text, str("'", option, "' has no value"), "write name=value");
    TRY(take_option(spec, option.substr(0, equals), option.substr(equals + 1)));
    has_step = has_step || option.substr(0, equals) == "step";
  }
  return checked(spec, has_step);
}

Result<std::vector<FaultSpec>> parse_fault_lines(std::string_view text) {
  std::vector<FaultSpec> faults;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    Result<FaultSpec> fault = parse_fault(line);
    if (!fault)
      return Failure{fault.error().code, str("line ", number, ": ", fault.error().message)};
    faults.push_back(std::move(fault).value());
  }
  return faults;
}

}  // namespace paceline::fault
