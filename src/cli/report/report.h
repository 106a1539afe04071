// The report of a run: report.json for programs, report.html for people, steps.csv for a table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "cli/report/run_record.h"

namespace paceline::cli {

// The fields of design section 10. Times in seconds since the run began; rank-seconds.
nlohmann::ordered_json report_json(const RunRecord& record);

// One line per committed turn: turn,step,epoch,at_s,step_ms,micro_batches,flagged,compute_s,wait_s.
std::string steps_csv(const RunRecord& record);

// One file without outside resources.
std::string report_html(const RunRecord& record);

// Writes the three files into `directory`, each whole or not at all.
Status write_report(const RunRecord& record, const std::string& directory);

}  // namespace paceline::cli
