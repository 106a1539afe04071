// Workloads as text: jobs with the time at which they came and the time that they ran.
//
// Formats, told apart by their header line. Each row is one job.
//
//   paceline  submit_s, duration_s and gpus; optional: name, queue, pods (then gpus are those of
//             each), cpus and memory_mib of each pod, gpu_model, priority, expected_s,
//             preemptible (0 or 1)
//   philly    timestamp, duration, num_gpus, cluster (its queue): Microsoft's trace, as in AdaptDL
//   openb     name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec, creation_time,
//             deletion_time, scheduled_time: Alibaba's cluster-trace-gpu-v2023
//
// A row that cannot be read is named by its line with the reason, and counted; the others are used.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace paceline::sim {

struct TraceJob {
  size_t line = 0;
  std::string name = {};
  std::string queue = {};
  Duration submitted = {};  // since the first job
  Duration duration = {};
  int64_t gpu_milli = 0;  // of each pod; above one GPU a multiple of 1000
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
  uint32_t pods = 0;  // 0: gpu_milli is the sum, to be divided among nodes
  std::vector<std::string> gpu_models = {};
  int32_t priority = 0;
  bool is_preemptible = true;
  std::optional<Duration> expected = {};
};

struct BadRow {
  size_t line = 0;
  std::string reason;
};

struct Trace {
  std::string format;
  std::vector<TraceJob> jobs;  // by time of submission, then line
  std::vector<BadRow> bad_rows;
  size_t outside_window = 0;
};

// Times of the trace itself; jobs submitted outside are left out and counted.
struct TraceWindow {
  Duration from = {};
  Duration until = Duration::max();  // excluded
};

// Fails if there is no header of a known format.
Result<Trace> read_trace(std::istream& input, const TraceWindow& window = {});

// "2017-10-09 07:01:55" as seconds since 1970, without time zone; nothing if it is no such time
// between the years 1970 and 2200.
std::optional<int64_t> parse_timestamp(const std::string& text);

}  // namespace paceline::sim
