#include "campaign.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/hash.h"
#include "base/str.h"

namespace paceline::sim {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kReportInterval{10};

double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

double load() {
  double average = 0;
  return getloadavg(&average, 1) == 1 ? average : 0;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

// A CHECK of the cores ends the process: the seed that its thread was at is the finding.
thread_local char at_seed[64];

void print_seed_of_check(int) {
  for (const char* text : {"VIOLATION CHECK at ", static_cast<const char*>(at_seed), "\n"})
    if (write(STDERR_FILENO, text, std::char_traits<char>::length(text)) < 0) break;
  _exit(1);
}

// What the threads share.
class Campaign {
 public:
  explicit Campaign(const Options& options) : options_(options) {}

  std::vector<SeedResult> run() {
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < options_.threads; ++t) threads.emplace_back([this] { work(); });
    std::thread reporter([this] { report_at_intervals(); });
    for (std::thread& thread : threads) thread.join();
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    over_.notify_all();
    reporter.join();
    std::sort(results_.begin(), results_.end(),
              [](const SeedResult& a, const SeedResult& b) { return a.seed < b.seed; });
    return std::move(results_);
  }

 private:
  void work() {
    for (uint64_t i = next_++; i < options_.seeds; i = next_++) {
      const uint64_t seed = options_.first_seed + i;
      std::snprintf(at_seed, sizeof at_seed, "seed %llu", static_cast<unsigned long long>(seed));
      add(run_seed(options_, seed, simulated_s_));
    }
  }

  void add(SeedResult result) {
    const std::lock_guard lock(mutex_);
    faults_ += result.faults;
    if (!result.problem.empty()) {
      ++failed_;
      std::printf("seed %llu: %s\n  again: chaos ... --first-seed %llu --seeds 1 --story 1\n",
                  static_cast<unsigned long long>(result.seed), result.problem.c_str(),
                  static_cast<unsigned long long>(result.seed));
      std::fflush(stdout);
    }
    results_.push_back(std::move(result));
  }

  void report_at_intervals() {
    std::unique_lock lock(mutex_);
    while (!over_.wait_for(lock, kReportInterval, [this] { return is_over_; })) report();
  }

  void report() const {
    const double wall_s = seconds_since(begun_);
    const double hours = static_cast<double>(simulated_s_) / 3600;
    std::printf(
        "%5.0f s: %zu of %llu seeds, %llu failed, %llu faults, %.2f seeds/s, "
        "%.0f h simulated\n",
        wall_s, results_.size(), static_cast<unsigned long long>(options_.seeds),
        static_cast<unsigned long long>(failed_), static_cast<unsigned long long>(faults_),
        static_cast<double>(results_.size()) / wall_s, hours);
    std::fflush(stdout);
  }

  const Options& options_;
  const Clock::time_point begun_ = Clock::now();
  std::atomic<uint64_t> next_ = 0;
  std::atomic<uint64_t> simulated_s_ = 0;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::vector<SeedResult> results_;
  uint64_t failed_ = 0, faults_ = 0;
};

}  // namespace

uint64_t CampaignResult::total(uint64_t SeedResult::*field) const {
  return std::accumulate(seeds.begin(), seeds.end(), uint64_t{0},
                         [&](uint64_t sum, const SeedResult& each) { return sum + each.*field; });
}

uint64_t CampaignResult::failed() const {
  return static_cast<uint64_t>(std::count_if(
      seeds.begin(), seeds.end(), [](const SeedResult& each) { return !each.problem.empty(); }));
}

uint64_t CampaignResult::lost_all() const {
  return static_cast<uint64_t>(std::count_if(
      seeds.begin(), seeds.end(), [](const SeedResult& each) { return each.has_lost_all; }));
}

uint64_t CampaignResult::digest() const {
  uint64_t sum = 0;
  for (const SeedResult& each : seeds) sum += mix64(each.seed ^ each.digest);
  return sum;
}

CampaignResult run_campaign(const Options& options) {
  std::signal(SIGABRT, print_seed_of_check);
  CampaignResult result;
  result.started = utc_now();
  result.load_before = load();
  const Clock::time_point begun = Clock::now();
  result.seeds = Campaign(options).run();
  result.wall_s = seconds_since(begun);
  result.load_after = load();
  return result;
}

}  // namespace paceline::sim
