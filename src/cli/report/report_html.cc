// report.html: the report's JSON, a style sheet and the script that draws it, in one file.
//
// The page is made in the browser from the data, so that what it shows is what report.json says.
// Text from the run enters the page through textContent only.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/report/report.h"
#include "cli/report/report_page.h"
#include "cli/report/throughput.h"

namespace paceline::cli {
namespace {

constexpr size_t kMaxRateSlices = 160;  // as many as the plot can show
constexpr size_t kStepsPerSlice = 5;    // fewer would show the beat of single steps
constexpr size_t kMaxCurvePoints = 2000;

nlohmann::ordered_json rates_json(const RunRecord& record) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  const size_t slices =
      std::clamp<size_t>(record.turns().size() / kStepsPerSlice, 2, kMaxRateSlices);
  for (const RatePoint& point : rates_of(record, slices))
    points.push_back({point.at_s, point.steps_per_s});
  return points;
}

// A curve of a long run is thinned to what a screen can show; report.json has every point.
void thin_curves(nlohmann::ordered_json& metrics) {
  for (auto& [name, points] : metrics.items()) {
    const size_t stride = points.size() / kMaxCurvePoints + 1;
    if (stride == 1) continue;
    nlohmann::ordered_json kept = nlohmann::ordered_json::array();
    for (size_t i = 0; i < points.size(); i += stride) kept.push_back(points[i]);
    points = std::move(kept);
  }
}

// Inside a script element only "</" and "<!--" could end the data early.
std::string embedded(const nlohmann::ordered_json& json) {
  const std::string text = json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

}  // namespace

std::string report_html(const RunRecord& record) {
  nlohmann::ordered_json data = report_json(record);
  thin_curves(data["metrics"]);
  data["rates"] = rates_json(record);
  std::string page(kReportPage);
  const std::string_view mark = kReportDataMark;
  const size_t at = page.find(mark);
  CHECK(at != std::string::npos);
  page.replace(at, mark.size(), embedded(data));
  return page;
}

}  // namespace paceline::cli
