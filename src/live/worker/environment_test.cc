// Goal: what the launcher says in the environment is taken, and what it cannot mean is refused.
#include "live/worker/environment.h"

#include <gtest/gtest.h>

#include <map>

namespace paceline::worker {
namespace {

Result<SessionOptions> options_of(const std::map<std::string, std::string>& variables) {
  return options_from([&variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(Environment, Empty_IsAJobOfOneRankWhoseProgramChooses) {
  const auto options = options_of({});
  ASSERT_TRUE(options.has_value());
  EXPECT_FALSE(options->agent_socket.is_open());
  EXPECT_FALSE(options->is_seed_set);
  EXPECT_EQ(options->micro_batches, 0u);
  EXPECT_EQ(options->reduce, ReduceMode::Exact);
}

TEST(Environment, LaunchersChoices_AreTaken) {
  const auto options = options_of({{"PACELINE_SEED", "18446744073709551615"},
                                   {"PACELINE_MICRO_BATCHES", "12"},
                                   {"PACELINE_REDUCE", "fast"}});
  ASSERT_TRUE(options.has_value());
  EXPECT_TRUE(options->is_seed_set);
  EXPECT_EQ(options->seed, UINT64_MAX);
  EXPECT_EQ(options->micro_batches, 12u);
  EXPECT_EQ(options->reduce, ReduceMode::Fast);
}

TEST(Environment, Nonsense_IsRefusedByName) {
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"PACELINE_SEED", "1x"}, {"PACELINE_MICRO_BATCHES", "0"}, {"PACELINE_REDUCE", "sum"}}) {
    const auto options = options_of({{name, value}});
    ASSERT_FALSE(options.has_value()) << name;
    EXPECT_NE(options.error().message.find(name), std::string::npos) << options.error().message;
  }
}

}  // namespace
}  // namespace paceline::worker
