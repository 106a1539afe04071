// Goal: what a rank finds in its environment. Method: by variable.
#include "live/agent/rank_environment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

namespace paceline::agent {
namespace {

std::optional<std::string> value_of(const Environment& environment, const std::string& name) {
  for (const auto& [key, value] : environment)
    if (key == name) return value;
  return std::nullopt;
}

Program program_with(Environment environment) {
  return {.arguments = {"p"},
          .environment = std::move(environment),
          .working_directory = {},
          .job_token = 0x1f};
}

const RankPlace kPlace{.rank = {.rank = {.slot = SlotId(5), .incarnation = Incarnation(3)},
                                .local_rank = 1,
                                .world_size = 8},
                       .local_world_size = 2,
                       .address = "10.0.0.7",
                       .socket = 11,
                       .ring = 12};

TEST(RankEnvironment, OrdinaryRank_HasBothContracts) {
  const Environment environment = rank_environment({{"HOME", "/h"}}, program_with({}), kPlace);
  const struct {
    const char* name;
    const char* value;
  } cases[] = {{"HOME", "/h"},
               {"RANK", "5"},
               {"LOCAL_RANK", "1"},
               {"WORLD_SIZE", "8"},
               {"LOCAL_WORLD_SIZE", "2"},
               {"GROUP_RANK", "2"},
               {"TORCHELASTIC_RESTART_COUNT", "2"},
               {"MASTER_ADDR", "10.0.0.7"},
               {"OMP_NUM_THREADS", "1"},
               {"OPENBLAS_NUM_THREADS", "1"},
               {"PACELINE_SOCKET_FD", "11"},
               {"PACELINE_RING_FD", "12"},
               {"PACELINE_RANK", "5.3"},
               {"PACELINE_JOB_TOKEN", "000000000000001f"},
               {"PACELINE_ADDRESS", "10.0.0.7"}};
  for (const auto& c : cases) EXPECT_EQ(value_of(environment, c.name), c.value) << c.name;
  EXPECT_EQ(value_of(environment, "PACELINE_JOINER"), std::nullopt);
}

TEST(RankEnvironment, Program_WinsOverTheHost_ButNotOverTheRank) {
  const Environment environment = rank_environment(
      {{"OMP_NUM_THREADS", "4"}, {"COLOUR", "host"}},
      program_with({{"COLOUR", "program"}, {"MASTER_ADDR", "10.0.0.1"}, {"RANK", "99"}}), kPlace);
  EXPECT_EQ(value_of(environment, "OMP_NUM_THREADS"), "4");
  EXPECT_EQ(value_of(environment, "COLOUR"), "program");
  EXPECT_EQ(value_of(environment, "MASTER_ADDR"), "10.0.0.1");
  EXPECT_EQ(value_of(environment, "RANK"), "5");
}

TEST(RankEnvironment, Secrets_OfTheController_StayWithTheAgent) {
  const Environment environment =
      rank_environment({{"PACELINE_TOKEN", "s"}}, program_with({}), kPlace);
  EXPECT_EQ(value_of(environment, "PACELINE_TOKEN"), std::nullopt);
}

TEST(RankEnvironment, Joiner_IsTold_AndOnlyItself) {
  RankPlace place = kPlace;
  place.rank.is_joiner = true;
  EXPECT_EQ(value_of(rank_environment({}, program_with({}), place), "PACELINE_JOINER"), "1");
  // An agent that was itself started by a joiner.
  EXPECT_EQ(value_of(rank_environment({{"PACELINE_JOINER", "1"}}, program_with({}), kPlace),
                     "PACELINE_JOINER"),
            std::nullopt);
}

}  // namespace
}  // namespace paceline::agent
