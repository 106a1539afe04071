// Goal: converters are inverse to each other on everything within bounds, and refuse everything
// else. Method: random values of every kind (the seed is printed; PACELINE_SEED sets it), then
// mutated bytes.
#include "live/rpc/convert.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <utility>

#include "live/rpc/random_values_for_test.h"
#include "paceline.pb.h"

namespace paceline::rpc {
namespace {

constexpr int kRounds = 2000;

uint64_t seed_of_run() {
  const char* const given = std::getenv("PACELINE_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : uint64_t{std::random_device()()};
  std::cout << "seed " << seed << "; repeat with PACELINE_SEED=" << seed << "\n";
  return seed;
}

template <class Proto, class Value>
void expect_round_trip(const Value& value) {
  const std::string bytes = to_proto(value).SerializeAsString();
  Proto message;
  ASSERT_TRUE(message.ParseFromString(bytes));
  Result<Value> back = from_proto(message);
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_TRUE(*back == value);
}

// Whatever the bytes are: an error, or a value that is itself within bounds.
template <class Proto, class Value>
void expect_survives_mutation(const Value& value, Rng& rng) {
  std::string bytes = to_proto(value).SerializeAsString();
  const uint64_t changes = 1 + rng.below(4);
  for (uint64_t i = 0; i < changes && !bytes.empty(); ++i)
    bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
  if (rng.chance_ppm(300'000)) bytes.resize(rng.below(bytes.size() + 1));
  Proto message;
  if (!message.ParseFromString(bytes)) return;
  Result<Value> read = from_proto(message);
  if (read.has_value()) expect_round_trip<Proto>(*read);
}

TEST(Convert, RandomValuesOfEveryKind_ComeBackEqual) {
  Rng rng(seed_of_run());
  for (int i = 0; i < kRounds && !::testing::Test::HasFailure(); ++i) {
    expect_round_trip<proto::HostEvent>(RandomValues(rng).host_event());
    expect_round_trip<proto::HostCommand>(RandomValues(rng).host_command());
    expect_round_trip<proto::JobEvent>(RandomValues(rng).job_event());
    expect_round_trip<proto::JobSpec>(RandomValues(rng).job_spec());
  }
}

TEST(Convert, MutatedBytes_AreRefusedOrInBounds) {
  Rng rng(seed_of_run());
  for (int i = 0; i < kRounds && !::testing::Test::HasFailure(); ++i) {
    expect_survives_mutation<proto::HostEvent>(RandomValues(rng).host_event(), rng);
    expect_survives_mutation<proto::HostCommand>(RandomValues(rng).host_command(), rng);
    expect_survives_mutation<proto::JobEvent>(RandomValues(rng).job_event(), rng);
    expect_survives_mutation<proto::JobSpec>(RandomValues(rng).job_spec(), rng);
  }
}

template <class Proto>
void expect_refused(const Proto& message) {
  const auto read = from_proto(message);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, ErrorCode::Corrupt);
}

TEST(Convert, NoKind_IsRefused) {
  expect_refused(proto::HostEvent());
  expect_refused(proto::HostCommand());
  expect_refused(proto::JobEvent());
}

TEST(Convert, OutOfBounds_IsRefused) {
  proto::HostEvent slot;
  slot.mutable_started()->mutable_rank()->set_slot(kMaxRanks);
  expect_refused(slot);

  proto::HostEvent port;
  port.mutable_up()->mutable_endpoint()->set_port(65536);
  expect_refused(port);

  proto::HostEvent phase;
  phase.mutable_ended()->set_phase(static_cast<uint32_t>(kLastRankPhase) + 1);
  expect_refused(phase);

  proto::HostEvent held;
  held.mutable_from_rank()->mutable_report()->add_held(3);
  held.mutable_from_rank()->mutable_report()->add_held(3);
  expect_refused(held);

  proto::HostEvent time;
  time.mutable_window()->set_at(INT64_MIN);
  expect_refused(time);

  proto::HostEvent nameless;
  nameless.mutable_hello();
  expect_refused(nameless);

  proto::HostCommand control;
  control.mutable_to_rank()->set_control_message("garbage");
  expect_refused(control);

  proto::JobSpec ranks;
  ranks.set_hosts_max(UINT32_MAX);
  ranks.set_spare_hosts(UINT32_MAX);
  ranks.set_ranks_per_host(UINT32_MAX);
  expect_refused(ranks);
}

TEST(Convert, TextThatIsNotUtf8_Travels) {
  expect_round_trip<proto::JobEvent>(
      JobEvent(OutputLine{.rank = {}, .is_stderr = true, .text = "\xff\xfe \0 end"}));
}

}  // namespace
}  // namespace paceline::rpc
