// Goal: the least expected loss wins, and what cannot be done never does. Method: tables of
// measured numbers in, action out.
#include "core/recovery/choice.h"

#include <gtest/gtest.h>

namespace paceline::recovery {
namespace {

constexpr Duration ms(int64_t n) { return Duration::milliseconds(n); }

ActionKind chosen(const std::vector<Alternative>& alternatives) {
  return alternatives[choose(alternatives)].action;
}

PaceQuestion slow_rank() {
  PaceQuestion question;
  question.ranks = 8;
  question.now = ms(220);
  question.ideal = ms(200);
  question.rebalanced = ms(205);
  question.overhead = ms(5);
  question.repair = Duration::seconds(3);
  return question;
}

struct PaceCase {
  const char* name;
  void (*change)(PaceQuestion&);
  ActionKind expected;
};

TEST(Choice, Pace_LeastLossWins) {
  const PaceCase cases[] = {
      {"a better division", [](PaceQuestion&) {}, ActionKind::Rebalance},
      {"whole micro-batches are too large", [](PaceQuestion& q) { q.rebalanced = ms(220); },
       ActionKind::Wait},
      {"a gain within the error", [](PaceQuestion& q) { q.rebalanced = ms(219); },
       ActionKind::Wait},
      {"a spare that gains little", [](PaceQuestion& q) { q.swapped = ms(200); },
       ActionKind::Rebalance},
      {"a spare that gains much",
       [](PaceQuestion& q) { q.now = ms(400), q.rebalanced = ms(300), q.swapped = ms(200); },
       ActionKind::SwapSpare},
      {"nothing is slow", [](PaceQuestion& q) { q.now = q.rebalanced = ms(200); },
       ActionKind::Wait},
  };
  for (const PaceCase& each : cases) {
    PaceQuestion question = slow_rank();
    each.change(question);
    EXPECT_EQ(chosen(price_pace(question)), each.expected) << each.name;
  }
}

LossQuestion lost_rank() {
  LossQuestion question;
  question.ranks = 8;
  question.lost = 1;
  question.micro_batches_redone = 2;
  question.micro_batch = ms(25);
  question.launch = Duration::seconds(2);
  question.heal = Duration::seconds(1);
  question.restart_after = Duration();
  question.absence = Duration::seconds(600);
  question.step = ms(60);
  question.shrunk_step = ms(85);
  return question;
}

struct LossCase {
  const char* name;
  void (*change)(LossQuestion&);
  ActionKind expected;
};

TEST(Choice, Loss_LeastLossWins) {
  const LossCase cases[] = {
      {"it is started again beside the others", [](LossQuestion&) {}, ActionKind::Shrink},
      {"a hot spare stands by", [](LossQuestion& q) { q.standing_by = 1; }, ActionKind::SwapSpare},
      {"its host is gone, and there is no spare", [](LossQuestion& q) { q.restart_after.reset(); },
       ActionKind::Shrink},
      {"its host is gone, and another is idle",
       [](LossQuestion& q) { q.restart_after.reset(), q.cold_spares = 1; }, ActionKind::SwapSpare},
      {"its own place is as good as the spare's", [](LossQuestion& q) { q.cold_spares = 1; },
       ActionKind::Shrink},
      {"in its own place it has to wait",
       [](LossQuestion& q) { q.cold_spares = 1, q.restart_after = Duration::seconds(1); },
       ActionKind::SwapSpare},
      {"two are gone, and one can be replaced",
       [](LossQuestion& q) { q.restart_after.reset(), q.lost = 2, q.cold_spares = 1; },
       ActionKind::SwapSpare},
      {"the host is back before the spare could have the state",
       [](LossQuestion& q) { q.restart_after.reset(), q.cold_spares = 1, q.absence = Duration(); },
       ActionKind::Shrink},
      {"nobody is left to heal it",
       [](LossQuestion& q) { q.restart_after.reset(), q.cold_spares = q.lost = q.ranks; },
       ActionKind::Stop},
  };
  for (const LossCase& each : cases) {
    LossQuestion question = lost_rank();
    each.change(question);
    EXPECT_EQ(chosen(price_loss(question)), each.expected) << each.name;
  }
}

// launch + heal of one of eight, and as long the other seven in steps of 85 ms instead of 60 ms;
// two micro-batches of 25 ms again.
TEST(Choice, ColdSwap_CostsLaunchAndHeal) {
  LossQuestion question = lost_rank();
  question.restart_after.reset();
  question.cold_spares = 1;
  question.state_bytes = 64'000'000;
  const std::vector<Alternative> all = price_loss(question);
  const Alternative& swap = all[choose(all)];
  ASSERT_EQ(swap.action, ActionKind::SwapSpare);
  EXPECT_EQ(swap.cost_rank_ms, 3000 + 7 * 25 * (3000 / 60) + 2 * 25);
  EXPECT_EQ(
      swap.why,
      "1 of 1 lost rank on a cold spare: launch 2000 ms, heal of 64 MB 1000 ms; 7 ranks with 85 ms "
      "a step instead of 60 ms for 3000 ms");
  EXPECT_NE(reason_of(all, swap).find("as long as the host is reckoned to be away"),
            std::string::npos);
}

TEST(Choice, EveryAlternative_SaysWhy) {
  for (const Alternative& alternative : price_loss(lost_rank()))
    EXPECT_FALSE(alternative.why.empty());
  for (const Alternative& alternative : price_pace(slow_rank()))
    EXPECT_FALSE(alternative.why.empty());
}

}  // namespace
}  // namespace paceline::recovery
