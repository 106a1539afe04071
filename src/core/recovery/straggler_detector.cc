#include "core/recovery/straggler_detector.h"

#include <algorithm>

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

void push(std::deque<int64_t>& values, int64_t value) {
  values.push_back(value);
  if (values.size() > kWindow) values.pop_front();
}

std::vector<int64_t> last_of(const std::deque<int64_t>& values, size_t count) {
  return {values.end() - static_cast<std::ptrdiff_t>(std::min(count, values.size())), values.end()};
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
  const int64_t cost = std::max<int64_t>(1, (compute - delay) / sample.micro_batches);
  push(pace.cost_ns, cost);
  push(pace.delay_permille, delay * 1000 / compute);
  pace.newest = sample.turn;
  if (pace.distrusted > 0) --pace.distrusted;
  open_turns_[sample.turn][rank] = cost;
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

std::map<RankId, StragglerDetector::Summary> StragglerDetector::summarize() const {
  std::map<RankId, Summary> all;
  for (const auto& [rank, pace] : ranks_) {
    if (pace.cost_ns.size() < kLeastTurns) continue;
    Summary& summary = all[rank];
    summary.cost_ns = median_of({pace.cost_ns.begin(), pace.cost_ns.end()});
    summary.recent_ns = median_of(last_of(pace.cost_ns, kRecentTurns));
    const int64_t deviation =
        median_deviation_of({pace.cost_ns.begin(), pace.cost_ns.end()}, summary.cost_ns);
    summary.noise_permille = deviation * 1000 / summary.cost_ns;
  }
  return all;
}

std::vector<PaceChange> StragglerDetector::update() {
  std::vector<PaceChange> changes;
  const std::map<RankId, Summary> all = summarize();
  if (all.empty()) return changes;
  std::vector<int64_t> sorted, noise, usual;
  Reference others;
  for (const auto& [rank, summary] : all) {
    sorted.push_back(summary.cost_ns);
    noise.push_back(summary.noise_permille);
    others.newest = std::max(others.newest, ranks_.at(rank).newest);
  }
  std::sort(sorted.begin(), sorted.end());
  others.noise_permille = median_of(std::move(noise));
  for (const auto& [rank, summary] : all) {
    if (sorted.size() < 2) break;
    // The median of all but this one: what lies above it moves down by one place.
    const size_t middle = (sorted.size() - 1) / 2;
    others.cost_ns = sorted[middle] >= summary.cost_ns ? sorted[middle + 1] : sorted[middle];
    judge(rank, summary, others, changes);
  }
  for (const auto& [rank, summary] : all)
    if (!slow_.contains(rank)) usual.push_back(summary.cost_ns);
  if (!usual.empty()) usual_ns_ = median_of(std::move(usual));
  return changes;
}

void StragglerDetector::judge(RankId rank, const Summary& own, const Reference& others,
                              std::vector<PaceChange>& changes) {
  Pace& pace = ranks_.at(rank);
  const int64_t others_ns = others.cost_ns;
  const int64_t noise_permille = std::max(own.noise_permille, others.noise_permille);
  const int64_t threshold = std::max(kSlowPermille, noise_permille * kNoiseFactorPermille / 1000);
  const int64_t excess = permille_above(own.cost_ns, others_ns);
  const auto tell = [&](bool is_slow, int64_t cost_ns) {
    const Duration cost = Duration::nanoseconds(cost_ns),
                   reference = Duration::nanoseconds(others_ns);
    changes.push_back({.rank = rank,
                       .is_slow = is_slow,
                       .cost_ns = cost_ns,
                       .others_ns = others_ns,
                       .evidence = str("a micro-batch takes it ", cost, ", the others ", reference,
                                       " (", permille_above(cost_ns, others_ns) / 10,
                                       " % more; threshold ", threshold / 10, " %; medians of ",
                                       pace.cost_ns.size(), " turns, without run-queue delay)")});
  };
  const auto found = slow_.find(rank);
  if (found == slow_.end()) {
    if (pace.distrusted > 0 || excess < threshold) return;
    const auto unremarkable = std::count_if(
        pace.cost_ns.begin(), pace.cost_ns.end(),
        [&](int64_t cost) { return permille_above(cost, others_ns) * 2 < threshold; });
    if (unremarkable > kExceptions) return;
    slow_[rank] = own.cost_ns;
    tell(true, own.cost_ns);
    return;
  }
  const bool is_unseen = others.newest.value() > pace.newest.value() + kForgetTurns;
  if (is_unseen || permille_above(own.recent_ns, others_ns) <= kBackPermille) {
    slow_.erase(found);
    // Its old values would make it slow again at once, or hide that it is.
    while (pace.cost_ns.size() > (is_unseen ? 0 : kRecentTurns)) pace.cost_ns.pop_front();
    tell(false, is_unseen ? others_ns : own.recent_ns);
    return;
  }
  found->second = own.cost_ns;
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
