// Goal: a program that links the library, but behind a wrapper that does not say so, is run like
// any other that does. Method: the core with one host of two ranks, played by the test; the job is
// submitted as one that does not link the library.
#include <gtest/gtest.h>

#include "core/control/one_host_for_test.h"

namespace paceline::control {
namespace {

class WrapperTest : public OneHostTest {
 protected:
  WrapperTest() { is_aware_ = false; }
};

TEST_F(WrapperTest, RanksSayThatTheyAreUp_TheyStartAndAreRepaired) {
  start_to_heal();
  EXPECT_TRUE(epoch_.has(kMember));
  EXPECT_TRUE(heal_.has_value()) << "the rank that was killed joins the one that went on";
  commit(epoch_.number, kCommitted.next());
  ASSERT_TRUE(incident_.has_value());
  EXPECT_TRUE(incident_->recovered);
}

TEST_F(WrapperTest, ControllerRestarted_KnowsThatTheProgramIsAware) {
  start_to_heal();
  heal_.reset();
  restart_controller(epoch_.number);
  EXPECT_TRUE(heal_.has_value());
}

}  // namespace
}  // namespace paceline::control
