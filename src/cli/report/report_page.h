// The page of report.html with a mark where its data belong.
#pragma once

#include <string_view>

namespace paceline::cli {

inline constexpr std::string_view kReportDataMark = "\"REPORT DATA\"";
extern const std::string_view kReportPage;

}  // namespace paceline::cli
