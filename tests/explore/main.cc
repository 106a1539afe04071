// explore: every interleaving of a small job with a bounded number of faults, over the real
// RankCore and Membership. Exit: 0 all properties hold, 1 one is violated (with a shortest trace),
// 2 more states than the limit, 64 usage.
//
//   explore --steps 2 --kills 1 --crashes 1 [--full] [--cold] [--spare] [--overflow]
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include "search.h"

namespace paceline::explore {
namespace {

constexpr const char* kUsage =
    "usage: explore [--steps N] [--kills N] [--freezes N] [--cuts N] [--crashes N] [--links N]\n"
    "               [--duplicates N] [--plan 1|2|3] [--spare] [--overflow] [--cold] [--full]\n"
    "               [--limit MILLIONS] [--weaken newer_refused|vote_reread]\n"
    "plan: 1 rebalance, 2 rank C leaves, 3 rank D joins\n";

// For the handler below alone: a signal handler takes no argument.
Search* running_search = nullptr;

// A CHECK that fails in a core is a violation too; how it was reached is what one wants to know.
extern "C" void print_trace_of_check(int) {
  std::signal(SIGABRT, SIG_DFL);
  std::printf("  VIOLATION CHECK of a core failed\n%s", running_search->trace().c_str());
  std::fflush(stdout);
  _exit(1);
}

bool parse(int count, char** arguments, Config& config) {
  const std::map<std::string_view, bool*> switches = {{"--spare", &config.has_spare},
                                                      {"--overflow", &config.has_overflow},
                                                      {"--cold", &config.is_cold},
                                                      {"--full", &config.is_full}};
  const std::map<std::string_view, uint8_t*> budgets = {
      {"--kills", &config.kills}, {"--freezes", &config.freezes},
      {"--cuts", &config.cuts},   {"--crashes", &config.crashes},
      {"--links", &config.links}, {"--duplicates", &config.duplicates}};
  for (int i = 1; i < count; ++i) {
    const std::string_view name = arguments[i];
    if (const auto found = switches.find(name); found != switches.end()) {
      *found->second = true;
      continue;
    }
    if (++i >= count) return false;
    const std::string_view text = arguments[i];
    const auto value = static_cast<uint8_t>(std::strtoul(arguments[i], nullptr, 10));
    if (const auto found = budgets.find(name); found != budgets.end()) {
      *found->second = value;
    } else if (name == "--steps" && value >= 1 && value < kMaxTurns) {
      config.steps = value;
    } else if (name == "--plan" && value <= static_cast<uint8_t>(Plan::Join)) {
      config.plan = static_cast<Plan>(value);
    } else if (name == "--limit") {
      config.limit = std::strtoull(arguments[i], nullptr, 10) * 1'000'000;
    } else if (name == "--weaken" && text == "newer_refused") {
      config.refuses_newer = true;
    } else if (name == "--weaken" && text == "vote_reread") {
      config.rereads_vote = true;
    } else {
      return false;
    }
  }
  return !(config.has_spare && config.plan == Plan::Join);
}

int report(const Result& result, Search& search) {
  const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  const char* verdicts[] = {"holds", "VIOLATION", "LIMIT"};
  std::printf("  %s %s states %llu transitions %llu final %llu (job stopped %llu) depth %u\n",
              verdicts[static_cast<int>(result.verdict)], result.violation.c_str(),
              number(result.states), number(result.transitions), number(result.finals),
              number(result.stopped), result.depth);
  std::printf("  ranks seen %zu, controllers seen %zu\n", search.world().rank_count(),
              search.world().controller_count());
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  std::printf("  %ld s of CPU time, at most %ld MB\n", static_cast<long>(used.ru_utime.tv_sec),
              used.ru_maxrss / 1024);
  if (result.verdict == Result::Verdict::Violated) std::printf("%s", search.trace().c_str());
  return static_cast<int>(result.verdict);
}

int run(int count, char** arguments) {
  Config config;
  if (!parse(count, arguments, config)) {
    std::fputs(kUsage, stderr);
    return 64;
  }
  for (int i = 1; i < count; ++i) std::printf("%s ", arguments[i]);
  std::printf("\n");
  Search search(config);
  running_search = &search;
  std::signal(SIGABRT, print_trace_of_check);
  return report(search.run(), search);
}

}  // namespace
}  // namespace paceline::explore

int main(int count, char** arguments) { return paceline::explore::run(count, arguments); }
