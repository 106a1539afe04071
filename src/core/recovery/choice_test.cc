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
  question.restart = Duration::seconds(3);
  question.step = ms(60);
  question.shrunk_step = ms(85);
  return question;
}

TEST(Choice, Loss_LeastLossWins) {
  LossQuestion question = lost_rank();
  EXPECT_EQ(chosen(price_loss(question)), ActionKind::Shrink);
  question.standing_by = 1;
  EXPECT_EQ(chosen(price_loss(question)), ActionKind::SwapSpare);
  question.standing_by = 0;
  question.can_restart = false;
  EXPECT_EQ(chosen(price_loss(question)), ActionKind::Shrink);
}

TEST(Choice, EveryAlternative_SaysWhy) {
  for (const Alternative& alternative : price_loss(lost_rank()))
    EXPECT_FALSE(alternative.why.empty());
  for (const Alternative& alternative : price_pace(slow_rank()))
    EXPECT_FALSE(alternative.why.empty());
}

}  // namespace
}  // namespace paceline::recovery
