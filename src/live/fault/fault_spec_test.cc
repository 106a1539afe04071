// Goal: what a user writes for a fault is taken, or refused in one line that names the remedy.
#include "live/fault/fault_spec.h"

#include <gtest/gtest.h>

namespace paceline::fault {
namespace {

TEST(FaultSpec, FaultSpec_KillWithPhase_IsParsed) {
  const Result<FaultSpec> fault = parse_fault("kill@step=40:rank=3,phase=reduce,after_us=250");
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->kind, FaultKind::Kill);
  EXPECT_EQ(fault->step, 40u);
  EXPECT_EQ(fault->rank, 3u);
  EXPECT_EQ(fault->phase, FaultPhase::Reduce);
  EXPECT_EQ(fault->after, Duration::microseconds(250));
  EXPECT_FALSE(fault->lasts.has_value());
}

TEST(FaultSpec, FaultSpec_Slow_TakesFactorAndDuration) {
  const Result<FaultSpec> fault = parse_fault("slow@step=9:rank=0,factor=2.5,for=1.5s");
  ASSERT_TRUE(fault.has_value());
  EXPECT_DOUBLE_EQ(fault->factor, 2.5);
  EXPECT_EQ(fault->lasts, Duration::milliseconds(1500));
}

TEST(FaultSpec, FaultSpec_LoseHostForEver_IsParsed) {
  const Result<FaultSpec> fault = parse_fault("lose-host@step=9:rank=0,for=ever");
  ASSERT_TRUE(fault.has_value());
  EXPECT_TRUE(fault->lasts_for_ever);
}

TEST(FaultSpec, FaultSpec_KillController_NeedsNoRank) {
  EXPECT_TRUE(parse_fault("kill-controller@step=9").has_value());
}

TEST(FaultSpec, FaultSpec_EveryKind_RoundTripsItsName) {
  for (const char* kind : {"kill", "stop", "hang", "spin", "skip", "slow", "lose-host",
                           "kill-agent", "kill-controller", "corrupt", "poison"}) {
    const Result<FaultSpec> fault = parse_fault(std::string(kind) + "@step=1:rank=0");
    ASSERT_TRUE(fault.has_value()) << kind;
    EXPECT_EQ(name_of(fault->kind), kind);
  }
}

TEST(FaultSpec, ByTime_NeedsNoStep) {
  const Result<FaultSpec> fault = parse_fault("lose-host@after_ms=1500:rank=1,for=2s");
  ASSERT_TRUE(fault.has_value()) << fault.error().message;
  EXPECT_EQ(fault->after_start, Duration::milliseconds(1500));
  EXPECT_FALSE(parse_fault("hang@after_ms=1500:rank=1").has_value());
  EXPECT_FALSE(parse_fault("kill@after_ms=1500:rank=1,step=3").has_value());
}

TEST(FaultSpec, Corrupt_MayStrikeAnyDonor) {
  EXPECT_TRUE(parse_fault("corrupt@step=40").has_value());
  EXPECT_FALSE(parse_fault("kill@step=40").has_value());
}

struct BadFault {
  const char* text;
  const char* named;  // must be part of the message
};

class FaultSpecRefused : public ::testing::TestWithParam<BadFault> {};

TEST_P(FaultSpecRefused, MessageNamesTheOffendingPart) {
  const Result<FaultSpec> fault = parse_fault(GetParam().text);
  ASSERT_FALSE(fault.has_value()) << GetParam().text;
  EXPECT_NE(fault.error().message.find(GetParam().named), std::string::npos)
      << fault.error().message;
  EXPECT_EQ(fault.error().message.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Table, FaultSpecRefused,
    ::testing::Values(BadFault{"", "unknown kind"}, BadFault{"melt@step=1:rank=0", "melt"},
                      BadFault{"kill", "no step"}, BadFault{"kill@step=1", "no rank"},
                      BadFault{"kill@rank=1", "no step"},
                      BadFault{"kill@step=-1:rank=0", "step=-1"},
                      BadFault{"kill@step=1:rank=x", "rank=x"}, BadFault{"kill@step", "no value"},
                      BadFault{"kill@step=1:rank=0,phase=lunch", "lunch"},
                      BadFault{"kill@step=1:rank=0,colour=red", "colour"},
                      BadFault{"slow@step=1:rank=0,factor=0.5", "factor=0.5"},
                      BadFault{"slow@step=1:rank=0,factor=nan", "factor=nan"},
                      BadFault{"stop@step=1:rank=0,for=10", "for=10"},
                      BadFault{"stop@step=1:rank=0,for=-1s", "for=-1s"},
                      BadFault{"kill@step=99999999999999999999:rank=0", "step="}));

TEST(FaultSpec, FaultLines_CommentsAndBlanks_AreSkipped) {
  const auto faults =
      parse_fault_lines("# game day\n\nkill@step=1:rank=0  # first\r\nstop@step=2:rank=1");
  ASSERT_TRUE(faults.has_value());
  ASSERT_EQ(faults->size(), 2u);
  EXPECT_EQ((*faults)[1].kind, FaultKind::Stop);
}

TEST(FaultSpec, FaultLines_BadLine_IsNamedByNumber) {
  const auto faults = parse_fault_lines("kill@step=1:rank=0\nkil@step=2:rank=0\n");
  ASSERT_FALSE(faults.has_value());
  EXPECT_EQ(faults.error().message.find("line 2: "), 0u);
}

}  // namespace
}  // namespace paceline::fault
