// Goal: what users of torchrun type is taken; what cannot work is refused in one line.
#include "cli/run_options.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <memory>

namespace paceline::cli {
namespace {

struct Parsed {
  std::unique_ptr<RunOptions> options = std::make_unique<RunOptions>();
  Status status;
};

Parsed parsed(std::vector<std::string> arguments) {
  Parsed result;
  CLI::App app("test", "pace");
  app.require_subcommand(1);
  app.add_subcommand("agent");
  add_run_flags(*app.add_subcommand("run"), *result.options);
  arguments.insert(arguments.begin(), "run");
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    result.status = Failure{ErrorCode::InvalidArgument, error.what()};
    return result;
  }
  result.status = complete(*result.options);
  return result;
}

using Words = std::vector<std::string>;

TEST(RunOptions, Defaults_AreOneRankOnOneHost) {
  const Parsed run = parsed({"--", "true"});
  ASSERT_TRUE(run.status.has_value()) << run.status.error().message;
  EXPECT_EQ(run.options->ranks(), 1u);
  EXPECT_EQ(run.options->command, Words{"true"});
  EXPECT_EQ(run.options->program[0].front(), '/');
}

TEST(RunOptions, ProgramsFlags_AreItsOwn) {
  for (const Words& words :
       {Words{"--local", "2", "--", "true", "--local", "9", "--seed=3", "agent"},
        Words{"--local", "2", "true", "--local", "9", "--seed=3", "agent"}}) {
    const Parsed run = parsed(words);
    ASSERT_TRUE(run.status.has_value()) << run.status.error().message;
    EXPECT_EQ(run.options->local_hosts, 2u);
    EXPECT_EQ(run.options->command, (Words{"true", "--local", "9", "--seed=3", "agent"}));
  }
}

TEST(RunOptions, TorchrunsFlags_AreTakenWithDashesOrUnderscores) {
  const Parsed run = parsed({"--nnodes=2:4", "--nproc_per_node", "2", "--rdzv-backend=c10d",
                             "--rdzv_endpoint", "host:29400", "--max_restarts=1", "--standalone",
                             "--node_rank=0", "--master-addr", "127.0.0.1", "true"});
  ASSERT_TRUE(run.status.has_value()) << run.status.error().message;
  EXPECT_EQ(run.options->hosts, 4u);
  EXPECT_EQ(run.options->hosts_min, 2u);
  EXPECT_EQ(run.options->ranks_per_host, 2u);
  EXPECT_EQ(run.options->max_restarts, 1u);
  EXPECT_EQ(run.options->ignored, (Words{"--rdzv-backend", "--rdzv-endpoint", "--node-rank",
                                         "--master-addr", "--standalone"}));
}

TEST(RunOptions, Faults_MayBeRepeatedAndNameSlotsOfSpares) {
  const Parsed run = parsed({"--local", "2", "--spares", "1", "--fault", "kill@step=1:rank=0",
                             "--fault", "stop@step=2:rank=2", "--", "true"});
  ASSERT_TRUE(run.status.has_value()) << run.status.error().message;
  EXPECT_EQ(run.options->faults.size(), 2u);
}

TEST(RunOptions, SpareMode_IsHotUnlessColdSparesAreAskedFor) {
  const Parsed hot = parsed({"--spares", "1", "--", "true"});
  ASSERT_TRUE(hot.status.has_value()) << hot.status.error().message;
  EXPECT_TRUE(job_spec_of(*hot.options).has_hot_spares);
  const Parsed cold = parsed({"--spares", "1", "--spare-mode", "cold", "--", "true"});
  ASSERT_TRUE(cold.status.has_value()) << cold.status.error().message;
  EXPECT_FALSE(job_spec_of(*cold.options).has_hot_spares);
  const Parsed none = parsed({"--spare-mode", "cold", "--", "true"});
  ASSERT_FALSE(none.status.has_value());
  EXPECT_NE(none.status.error().message.find("--spares"), std::string::npos);
}

TEST(RunOptions, Python_IsRunByPython) {
  const Parsed run = parsed({"-m", "json.tool", "--help"});
  ASSERT_TRUE(run.status.has_value()) << run.status.error().message;
  EXPECT_EQ(run.options->program[2], "-m");
  EXPECT_EQ(run.options->program[3], "json.tool");
}

TEST(RunOptions, JobSpec_SaysTheSame) {
  const Parsed run =
      parsed({"--local",         "4",       "--spares", "1",    "--min-ranks",    "3",
              "--micro-batches", "16",      "--seed",   "7",    "--reduce",       "fast",
              "--recovery",      "observe", "--poison", "skip", "--join-timeout", "5s",
              "--runtime",       "none",    "--",       "true"});
  ASSERT_TRUE(run.status.has_value()) << run.status.error().message;
  const JobSpec spec = job_spec_of(*run.options);
  EXPECT_EQ(spec.name, "true");
  EXPECT_EQ(spec.hosts_max, 4u);
  EXPECT_EQ(spec.hosts_min, 3u);
  EXPECT_EQ(spec.spare_hosts, 1u);
  EXPECT_EQ(spec.micro_batches, 16u);
  EXPECT_EQ(spec.seed, 7u);
  EXPECT_EQ(spec.reduce, ReduceMode::Fast);
  EXPECT_EQ(spec.recovery, RecoveryMode::Observe);
  EXPECT_EQ(spec.poison, PoisonPolicy::Skip);
  EXPECT_EQ(spec.join_timeout, Duration::seconds(5));
  EXPECT_FALSE(spec.is_aware);
}

TEST(RunOptions, Runtime_IsFoundByLooking) {
  const std::filesystem::path folder(::testing::TempDir());
  const std::string script = (folder / "uses_it.py").string();
  const std::string other = (folder / "does_not.py").string();
  std::ofstream(script) << "import paceline\n";
  std::ofstream(other) << "import torch\n";
  const auto is_aware = [](const Words& words) {
    const Parsed run = parsed(words);
    EXPECT_TRUE(run.status.has_value()) << run.status.error().message;
    return run.options->is_aware;
  };
  EXPECT_TRUE(is_aware({"--", script}));
  EXPECT_FALSE(is_aware({"--", other}));
  EXPECT_TRUE(is_aware({"--", "nice", "python3", script}));
  EXPECT_TRUE(is_aware({"--", "sh", "-c", "cd /; exec python3 '" + script + "'"}));
  EXPECT_FALSE(is_aware({"--", "sh", "-c", "exit 7"}));
  EXPECT_TRUE(is_aware({"--runtime", "paceline", "--", other}));
  EXPECT_FALSE(is_aware({"--runtime", "none", "--", script}));
}

TEST(RunOptions, TimeLimit_TakesTheUnitsOfAClock) {
  const auto limit_of = [](const std::string& text) {
    return *parsed({"--time-limit", text, "--", "true"}).options->time_limit;
  };
  EXPECT_EQ(limit_of("90"), Duration::seconds(90));
  EXPECT_EQ(limit_of("250ms"), Duration::milliseconds(250));
  EXPECT_EQ(limit_of("30m"), Duration::seconds(30 * 60));
  EXPECT_EQ(limit_of("2h"), Duration::seconds(2 * 3600));
  EXPECT_FALSE(parsed({"--", "true"}).options->time_limit.has_value());
}

struct BadLine {
  Words words;
  const char* named;  // must be part of the message
};

class RunOptionsRefused : public ::testing::TestWithParam<BadLine> {};

TEST_P(RunOptionsRefused, MessageNamesTheValue) {
  const Parsed run = parsed(GetParam().words);
  ASSERT_FALSE(run.status.has_value());
  EXPECT_NE(run.status.error().message.find(GetParam().named), std::string::npos)
      << run.status.error().message;
  EXPECT_EQ(run.status.error().message.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Table, RunOptionsRefused,
    ::testing::Values(
        BadLine{{}, "no program"}, BadLine{{"--local", "2"}, "no program"},
        BadLine{{"--local", "x", "--", "true"}, "x"},
        BadLine{{"--lcoal", "2", "--", "true"}, "--lcoal"},
        BadLine{{"--local", "4", "--micro-batches", "3", "--", "true"}, "--micro-batches 3"},
        BadLine{{"--local", "4", "--fault", "kill@step=1:rank=4", "--", "true"}, "no rank 4"},
        BadLine{{"--local", "4", "--fault", "melt@step=1:rank=0", "--", "true"}, "melt"},
        BadLine{{"--faults", "/nonexistent/faults", "--", "true"}, "/nonexistent/faults"},
        BadLine{{"--local", "4", "--nnodes", "3", "--", "true"}, "--nnodes 3"},
        BadLine{{"--nnodes", "4:2", "--", "true"}, "4:2"},
        BadLine{{"--nproc-per-node", "gpu", "--", "true"}, "gpu"},
        BadLine{{"--nproc-per-node", "0", "--", "true"}, "--nproc-per-node 0"},
        BadLine{{"--local", "1000", "--", "true"}, "--local 1000"},
        BadLine{{"--local", "2", "--min-ranks", "3", "--", "true"}, "--min-ranks 3"},
        BadLine{{"--join-timeout", "soon", "--", "true"}, "soon"},
        BadLine{{"--time-limit", "0", "--", "true"}, "--time-limit 0"},
        BadLine{{"--time-limit", "5d", "--", "true"}, "--time-limit 5d"},
        BadLine{{"--resume", "--", "true"}, "--resume"},
        BadLine{{"--checkpoint-every", "5", "--", "true"}, "--checkpoint-every"},
        BadLine{{"--report", "/proc/nothing", "--", "true"}, "/proc/nothing"},
        BadLine{{"--reduce", "sloppy", "--", "true"}, "sloppy"},
        BadLine{{"--", "/nonexistent/program"}, "/nonexistent/program"},
        BadLine{{"--", "no-such-program-anywhere"}, "no-such-program-anywhere"},
        BadLine{{"--", "/etc/passwd"}, "/etc/passwd"}, BadLine{{"--", "/etc"}, "directory"},
        BadLine{{"--", "/nonexistent/train.py"}, "train.py"}));

}  // namespace
}  // namespace paceline::cli
