#include "core/sched/run_times.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/check.h"
#include "core/sched/resources.h"

namespace paceline::sched {
namespace {

// 0: no GPU; 1: up to one; 2: up to two; 3: up to four; and so on.
uint32_t size_class(int64_t gpu_milli) {
  const auto gpus = static_cast<uint64_t>((gpu_milli + kMilli - 1) / kMilli);
  return gpus == 0 ? 0 : 1 + static_cast<uint32_t>(std::bit_width(gpus - 1));
}

void keep(std::deque<Duration>& kept, Duration run_time) {
  kept.push_back(run_time);
  if (kept.size() > RunTimes::kKept) kept.pop_front();
}

template <class Sizes>
const std::deque<Duration>* enough_of(const Sizes& sizes, uint32_t size) {
  const auto found = sizes.find(size);
  return found == sizes.end() || found->second.size() < RunTimes::kEnough ? nullptr
                                                                          : &found->second;
}

}  // namespace

void RunTimes::add(QueueId queue, int64_t gpu_milli, Duration run_time) {
  const uint32_t size = size_class(gpu_milli);
  keep(by_queue_[queue][size], run_time);
  keep(all_[size], run_time);
}

std::optional<Duration> RunTimes::expected(QueueId queue, int64_t gpu_milli,
                                           uint32_t permille) const {
  CHECK(permille <= 1000, permille);
  const uint32_t size = size_class(gpu_milli);
  const auto own = by_queue_.find(queue);
  const std::deque<Duration>* kept =
      own == by_queue_.end() ? nullptr : enough_of(own->second, size);
  if (kept == nullptr) kept = enough_of(all_, size);
  if (kept == nullptr) return std::nullopt;
  std::vector<Duration> sorted(kept->begin(), kept->end());
  const size_t rank = std::max<size_t>((sorted.size() * permille + 999) / 1000, 1) - 1;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(rank),
                   sorted.end());
  return sorted[rank];
}

}  // namespace paceline::sched
