#include "core/recovery/straggler_detector.h"

#include <algorithm>
#include <ranges>

#include "base/str.h"
#include "core/recovery/robust.h"

namespace paceline::recovery {
namespace {

constexpr size_t kWindow = 12;               // turns that a cost is the median of
constexpr size_t kLeastTurns = 9;            // before which nothing is said
constexpr size_t kRecentTurns = 7;           // that a recovery is judged by
constexpr uint32_t kWarmUpTurns = 4;         // of a process, not looked at
constexpr int64_t kMostDelayPermille = 600;  // of run-queue delay: above, nothing can be measured
constexpr int64_t kSlowPermille = 70;
constexpr int64_t kBackPermille = 35;
// The median of 12 values of median deviation d errs by about 0.54 d (normal noise); six times
// that.
constexpr int64_t kNoiseFactorPermille = 3300;
// All values of the window but so many are above half of the threshold, too: slowness is steady.
constexpr std::ptrdiff_t kExceptions = 2;
constexpr int64_t kRoundPermille = 10;
// A slow rank without work shows nothing: after as many turns of the others it is tried again.
constexpr uint64_t kForgetTurns = 100;

constexpr size_t kImbalanceTurns = 64;
constexpr int64_t kImbalancePermille = 200;  // how far the last one is behind the median
constexpr int64_t kCleanDelayPermille = 50;  // of run-queue delay: above, it is the machine's noise
constexpr size_t kOpenTurns = 64;

template <class T>
void push(std::deque<T>& values, T value) {
  values.push_back(value);
  if (values.size() > kWindow) values.pop_front();
}

// The median of all but one of them, `value`: what lies above it moves down by one place.
// REQUIRES: at least two, `sorted` ascending.
int64_t median_without(const std::vector<int64_t>& sorted, int64_t value) {
  const size_t middle = (sorted.size() - 1) / 2;
  return sorted[middle] >= value ? sorted[middle + 1] : sorted[middle];
}

// Readings taken apart: medians are of each kind of cost for itself.
struct Columns {
  std::vector<int64_t> wall, own;
};
template <class Readings>
Columns columns_of(const Readings& readings) {
  Columns columns;
  for (const auto& reading : readings) {
    columns.wall.push_back(reading.wall);
    columns.own.push_back(reading.own);
  }
  return columns;
}

int64_t permille_above(int64_t value, int64_t reference) {
  return (value - reference) * 1000 / std::max<int64_t>(1, reference);
}

}  // namespace

void StragglerDetector::add(RankId rank, const RankSample& sample) {
  if (sample.micro_batches == 0 || sample.compute <= Duration()) return;
  Pace& pace = ranks_[rank];
  if (++pace.samples <= kWarmUpTurns) return;
  const int64_t compute = sample.compute.in_nanoseconds();
  // The delay is that of the whole turn; who waits in finish_step sleeps, so it is shared between
  // computing and the program's other code.
  const Duration busy = std::max(sample.compute, sample.committed - sample.begun - sample.wait);
  const int64_t compute_permille =
      compute / std::max<int64_t>(1, busy.in_nanoseconds() / 1000);  // of what it did
  const int64_t delay = sample.run_queue_delay.in_nanoseconds() / 1000 * compute_permille;
  if (delay * 1000 > compute * kMostDelayPermille) return;
  const Reading cost{.wall = std::max<int64_t>(1, compute / sample.micro_batches),
                     .own = std::max<int64_t>(1, (compute - delay) / sample.micro_batches)};
  push(pace.cost_ns, cost);
  push(pace.delay_permille, delay * 1000 / compute);
  pace.newest = sample.turn;
  if (pace.distrusted > 0) --pace.distrusted;
  open_turns_[sample.turn][rank] = cost.own;
  close_turns();
}

void StragglerDetector::forget(RankId rank) {
  ranks_.erase(rank);
  slow_.erase(rank);
}

void StragglerDetector::distrust(RankId rank, uint32_t samples) {
  if (const auto found = ranks_.find(rank); found != ranks_.end())
    found->second.distrusted = samples;
  slow_.erase(rank);
}

bool StragglerDetector::has_measured(RankId rank) const {
  const auto found = ranks_.find(rank);
  return found != ranks_.end() && found->second.cost_ns.size() >= kWindow;
}

// --- Judgement ---

StragglerDetector::Reading StragglerDetector::median_reading(const std::deque<Reading>& values,
                                                             size_t count) {
  Columns last =
      columns_of(values | std::views::drop(values.size() - std::min(count, values.size())));
  return {.wall = median_of(std::move(last.wall)), .own = median_of(std::move(last.own))};
}

StragglerDetector::Summary StragglerDetector::summary_of(const Pace& pace) {
  Summary summary{.cost_ns = median_reading(pace.cost_ns, kWindow),
                  .recent_ns = median_reading(pace.cost_ns, kRecentTurns),
                  .noise_permille = 0};
  Columns costs = columns_of(pace.cost_ns);
  const auto noise = [](std::vector<int64_t> values, int64_t center) {
    return median_deviation_of(std::move(values), center) * 1000 / center;
  };
  summary.noise_permille = std::max(noise(std::move(costs.wall), summary.cost_ns.wall),
                                    noise(std::move(costs.own), summary.cost_ns.own));
  return summary;
}

std::map<RankId, StragglerDetector::Summary> StragglerDetector::summarize() const {
  std::map<RankId, Summary> all;
  for (const auto& [rank, pace] : ranks_)
    if (pace.cost_ns.size() >= kLeastTurns) all[rank] = summary_of(pace);
  return all;
}

int64_t StragglerDetector::smaller_excess(const Reading& own, const Reading& others) {
  return std::min(permille_above(own.wall, others.wall), permille_above(own.own, others.own));
}

int64_t StragglerDetector::greater_excess(const Reading& own, const Reading& others) {
  return std::max(permille_above(own.wall, others.wall), permille_above(own.own, others.own));
}

bool StragglerDetector::is_steadily_above(const Pace& pace, const Reading& others,
                                          int64_t permille) {
  const auto unremarkable =
      std::count_if(pace.cost_ns.begin(), pace.cost_ns.end(),
                    [&](const Reading& cost) { return smaller_excess(cost, others) < permille; });
  return unremarkable <= kExceptions;
}

std::vector<PaceChange> StragglerDetector::update() {
  std::vector<PaceChange> changes;
  const std::map<RankId, Summary> all = summarize();
  if (all.empty()) return changes;
  std::vector<Reading> costs;
  std::vector<int64_t> noise, usual;
  Reference others;
  for (const auto& [rank, summary] : all) {
    costs.push_back(summary.cost_ns);
    noise.push_back(summary.noise_permille);
    others.newest = std::max(others.newest, ranks_.at(rank).newest);
  }
  Columns sorted = columns_of(costs);
  std::ranges::sort(sorted.wall);
  std::ranges::sort(sorted.own);
  others.noise_permille = median_of(std::move(noise));
  for (const auto& [rank, summary] : all) {
    if (all.size() < 2) break;
    others.cost_ns = {.wall = median_without(sorted.wall, summary.cost_ns.wall),
                      .own = median_without(sorted.own, summary.cost_ns.own)};
    judge(rank, summary, others, changes);
  }
  for (const auto& [rank, summary] : all)
    if (!slow_.contains(rank)) usual.push_back(summary.cost_ns.wall);
  if (!usual.empty()) usual_ns_ = median_of(std::move(usual));
  return changes;
}

void StragglerDetector::judge(RankId rank, const Summary& own, const Reference& others,
                              std::vector<PaceChange>& changes) {
  Pace& pace = ranks_.at(rank);
  const int64_t noise_permille = std::max(own.noise_permille, others.noise_permille);
  const int64_t threshold = std::max(kSlowPermille, noise_permille * kNoiseFactorPermille / 1000);
  const int64_t others_ns = others.cost_ns.wall;
  const auto tell = [&](bool is_slow, int64_t permille) {
    const int64_t cost_ns = others_ns + others_ns * permille / 1000;
    changes.push_back(
        {.rank = rank,
         .is_slow = is_slow,
         .cost_ns = cost_ns,
         .others_ns = others_ns,
         .evidence = str("a micro-batch takes it ", Duration::nanoseconds(cost_ns), ", the others ",
                         Duration::nanoseconds(others_ns), " (", permille / 10,
                         " % more; threshold ", threshold / 10, " %; medians of ",
                         pace.cost_ns.size(), " turns, with and without run-queue delay)")});
    return cost_ns;
  };
  const int64_t excess = smaller_excess(own.cost_ns, others.cost_ns);
  const auto found = slow_.find(rank);
  if (found == slow_.end()) {
    const bool is_apart =
        permille_above(own.cost_ns.own, others.cost_ns.wall) * 2 >= threshold;  // by no delay
    if (pace.distrusted > 0 || excess < threshold || !is_apart) return;
    if (!is_steadily_above(pace, others.cost_ns, threshold / 2)) return;
    slow_[rank] = tell(true, excess);
    return;
  }
  const int64_t recent = greater_excess(own.recent_ns, others.cost_ns);
  const bool is_unseen = others.newest.value() > pace.newest.value() + kForgetTurns;
  if (is_unseen || recent <= kBackPermille) {
    slow_.erase(found);
    // Its old values would make it slow again at once, or hide that it is.
    while (pace.cost_ns.size() > (is_unseen ? 0 : kRecentTurns)) pace.cost_ns.pop_front();
    tell(false, is_unseen ? 0 : recent);
    return;
  }
  found->second = others_ns + others_ns * std::max<int64_t>(0, excess) / 1000;
}

std::map<RankId, int64_t> StragglerDetector::costs_ns() const {
  std::map<RankId, int64_t> costs;
  if (usual_ns_ == 0) return costs;
  for (const auto& [rank, pace] : ranks_) costs[rank] = usual_ns_;
  for (const auto& [rank, cost_ns] : slow_) {
    const int64_t permille = cost_ns * 1000 / usual_ns_;
    const int64_t rounded = (permille + kRoundPermille / 2) / kRoundPermille * kRoundPermille;
    costs[rank] = usual_ns_ * std::max<int64_t>(1000, rounded) / 1000;
  }
  return costs;
}

// --- Imbalance ---

// A turn is complete when a later one of as many ranks has begun to be; late samples are dropped.
void StragglerDetector::close_turns() {
  while (open_turns_.size() > 1) {
    const auto oldest = open_turns_.begin();
    const bool is_complete = oldest->second.size() >= ranks_.size();
    if (!is_complete && open_turns_.size() <= kOpenTurns) return;
    if (is_complete && oldest->second.size() >= 3) {
      std::vector<int64_t> costs;
      std::pair<RankId, int64_t> last{};
      for (const auto& [rank, cost] : oldest->second) {
        costs.push_back(cost);
        if (cost > last.second) last = {rank, cost};
      }
      last.second = permille_above(last.second, median_of(std::move(costs)));
      last_permille_.push_back(last);
      if (last_permille_.size() > kImbalanceTurns) last_permille_.pop_front();
    }
    open_turns_.erase(oldest);
  }
}

std::optional<std::string> StragglerDetector::take_imbalance() {
  if (has_told_imbalance_ || last_permille_.size() < kImbalanceTurns) return std::nullopt;
  std::map<RankId, size_t> times_last;
  std::vector<int64_t> behind;
  for (const auto& [rank, permille] : last_permille_) {
    ++times_last[rank];
    behind.push_back(permille);
  }
  for (const auto& [rank, times] : times_last)
    if (times * 2 > kImbalanceTurns) return std::nullopt;  // always the same: a straggler
  for (const auto& [rank, pace] : ranks_)
    if (pace.delay_permille.empty() ||
        median_of({pace.delay_permille.begin(), pace.delay_permille.end()}) > kCleanDelayPermille)
      return std::nullopt;
  const int64_t usual = median_of(std::move(behind));
  if (usual < kImbalancePermille) return std::nullopt;
  has_told_imbalance_ = true;
  return str("in half of the last ", kImbalanceTurns, " turns the last rank was ", usual / 10,
             " % or more behind the median, and ", times_last.size(),
             " ranks took turns at being last: micro-batches differ in work");
}

}  // namespace paceline::recovery
