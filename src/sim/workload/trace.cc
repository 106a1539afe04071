#include "sim/workload/trace.h"

#include <algorithm>
#include <array>
#include <functional>
#include <tuple>

#include "sim/workload/csv.h"

namespace paceline::sim {
namespace {

// Reads fields of one row; the first that is wrong is kept as the reason.
class Row {
 public:
  explicit Row(const CsvReader& csv) : csv_(csv) {}

  int64_t milli(const std::string& column, int64_t low, int64_t high) {
    const std::string text = csv_.field(column);
    const std::optional<int64_t> value = parse_milli(text);
    if (value && *value >= low && *value <= high) return *value;
    fail(str(column, " is '", text, "'"));
    return low;
  }
  int64_t whole(const std::string& column, int64_t low, int64_t high) {
    const int64_t value = milli(column, low * 1000, high * 1000);
    if (value % 1000 != 0) fail(str(column, " is '", csv_.field(column), "', not a whole number"));
    return value / 1000;
  }
  bool has(const std::string& column) const { return !csv_.field(column).empty(); }
  std::string text(const std::string& column) const { return csv_.field(column); }
  void fail(const std::string& reason) {
    if (reason_.empty()) reason_ = reason;
  }
  const std::string& reason() const { return reason_; }

 private:
  const CsvReader& csv_;
  std::string reason_;
};

constexpr int64_t kMaxSeconds = 100'000'000;  // three years
constexpr int64_t kMaxAmount = 1'000'000'000;
constexpr int64_t kMaxGpus = 1'000'000;

Duration seconds_of(int64_t milli) { return Duration::milliseconds(milli); }

// `submitted` counts from whatever the trace counts from; read_trace makes it relative.
using RowReader = std::function<TraceJob(Row&)>;

TraceJob read_own(Row& row) {
  TraceJob job{.name = row.text("name"), .queue = row.text("queue")};
  job.submitted = seconds_of(row.milli("submit_s", 0, kMaxSeconds * 1000));
  job.duration = seconds_of(row.milli("duration_s", 0, kMaxSeconds * 1000));
  job.gpu_milli = row.milli("gpus", 0, kMaxGpus * 1000);
  if (row.has("pods")) job.pods = static_cast<uint32_t>(row.whole("pods", 1, 65'536));
  if (row.has("cpus")) job.cpu_milli = row.milli("cpus", 0, kMaxGpus * 1000);
  if (row.has("memory_mib")) job.memory_mib = row.whole("memory_mib", 0, kMaxAmount);
  if (row.has("gpu_model")) job.gpu_models = {row.text("gpu_model")};
  if (row.has("priority"))
    job.priority = static_cast<int32_t>(row.whole("priority", -1'000'000, 1'000'000));
  if (row.has("preemptible")) job.is_preemptible = row.whole("preemptible", 0, 1) == 1;
  if (row.has("expected_s"))
    job.expected = seconds_of(row.milli("expected_s", 0, kMaxSeconds * 1000));
  return job;
}

TraceJob read_philly(Row& row) {
  TraceJob job{.queue = row.text("cluster")};
  const std::optional<int64_t> submitted = parse_timestamp(row.text("timestamp"));
  if (!submitted) row.fail(str("timestamp is '", row.text("timestamp"), "'"));
  job.submitted = Duration::seconds(submitted.value_or(0));
  job.duration = seconds_of(row.milli("duration", 0, kMaxSeconds * 1000));
  job.gpu_milli = row.whole("num_gpus", 1, kMaxGpus) * 1000;
  return job;
}

std::vector<std::string> split_models(const std::string& text) {
  std::vector<std::string> models;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('|', begin), text.size());
    models.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return models;
}

TraceJob read_openb(Row& row) {
  TraceJob job{
      .name = row.text("name"), .pods = 1, .gpu_models = split_models(row.text("gpu_spec"))};
  const int64_t created = row.milli("creation_time", 0, kMaxSeconds * 1000);
  const int64_t deleted = row.milli("deletion_time", 0, kMaxSeconds * 1000);
  const int64_t scheduled =
      row.has("scheduled_time") ? row.milli("scheduled_time", 0, kMaxSeconds * 1000) : created;
  if (deleted < scheduled) row.fail("deletion_time is before scheduled_time");
  job.submitted = seconds_of(created);
  job.duration = seconds_of(std::max<int64_t>(deleted - scheduled, 0));
  const int64_t gpus = row.whole("num_gpu", 0, 16);
  const int64_t each = gpus == 0 ? 0 : row.whole("gpu_milli", 1, 1000);
  if (gpus > 1 && each != 1000) row.fail(str("a fraction of ", gpus, " GPUs"));
  job.gpu_milli = gpus * each;
  job.cpu_milli = row.whole("cpu_milli", 0, kMaxAmount);
  job.memory_mib = row.whole("memory_mib", 0, kMaxAmount);
  return job;
}

struct Format {
  const char* name;
  std::vector<const char*> columns;  // that it must have
  RowReader read;
};

const std::array<Format, 3>& formats() {
  static const std::array<Format, 3> all = {
      Format{"paceline", {"submit_s", "duration_s", "gpus"}, read_own},
      Format{"philly", {"timestamp", "duration", "num_gpus", "cluster"}, read_philly},
      Format{"openb",
             {"cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "creation_time",
              "deletion_time"},
             read_openb}};
  return all;
}

const Format* format_of(const CsvReader& csv) {
  for (const Format& format : formats())
    if (std::all_of(format.columns.begin(), format.columns.end(),
                    [&csv](const char* column) { return csv.has_column(column); }))
      return &format;
  return nullptr;
}

void make_relative(std::vector<TraceJob>& jobs) {
  std::sort(jobs.begin(), jobs.end(), [](const TraceJob& a, const TraceJob& b) {
    return std::tie(a.submitted, a.line) < std::tie(b.submitted, b.line);
  });
  if (jobs.empty()) return;
  const Duration first = jobs.front().submitted;
  for (TraceJob& job : jobs) job.submitted = job.submitted - first;
}

}  // namespace

Result<Trace> read_trace(std::istream& input, const TraceWindow& window) {
  CsvReader csv(input);
  const Format* format = format_of(csv);
  if (format == nullptr)
    return Failure{
        ErrorCode::InvalidArgument,
        "the first line is no header of a known trace; ours has submit_s,duration_s,gpus"};
  Trace trace{.format = format->name, .jobs = {}, .bad_rows = {}};
  while (csv.next()) {
    Row row(csv);
    if (!csv.is_complete()) row.fail(str("has not ", csv.columns().size(), " fields"));
    TraceJob job = format->read(row);
    if (!row.reason().empty()) {
      trace.bad_rows.push_back(BadRow{csv.line(), row.reason()});
      continue;
    }
    if (job.submitted < window.from || job.submitted >= window.until) {
      ++trace.outside_window;
      continue;
    }
    job.line = csv.line();
    if (job.name.empty()) job.name = str("line", job.line);
    trace.jobs.push_back(std::move(job));
  }
  make_relative(trace.jobs);
  return trace;
}

std::optional<int64_t> parse_timestamp(const std::string& text) {
  // YYYY-MM-DD hh:mm:ss
  static const std::string kShape = "dddd-dd-dd dd:dd:dd";
  if (text.size() != kShape.size()) return std::nullopt;
  std::array<int64_t, 6> parts{};
  size_t part = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (kShape[i] == 'd' ? !is_digit : text[i] != kShape[i]) return std::nullopt;
    if (is_digit) {
      parts[part] = parts[part] * 10 + (text[i] - '0');
    } else {
      ++part;
    }
  }
  auto [year, month, day, hour, minute, second] = parts;
  if (year < 1970 || year > 2200 || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 ||
      minute > 59 || second > 60)
    return std::nullopt;
  // Days since 1970 of a date of the Gregorian calendar; years begin with March.
  year -= month <= 2 ? 1 : 0;
  const int64_t era = year / 400, year_of_era = year % 400;
  const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  const int64_t days = era * 146'097 + day_of_era - 719'468;
  return days * 86'400 + hour * 3'600 + minute * 60 + second;
}

}  // namespace paceline::sim
