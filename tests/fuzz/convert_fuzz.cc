// Messages of the stream between controller, agents and watchers. Properties: a message is refused
// or gives a value within bounds, and that value travels again unchanged.
#include <string>

#include "fuzz/fuzz_target.h"
#include "live/rpc/convert.h"
#include "live/rpc/random_values_for_test.h"
#include "paceline.pb.h"

namespace paceline::fuzz {
namespace {

template <class Proto>
void check_message(std::span<const std::byte> input) {
  Proto message;
  if (!message.ParseFromArray(input.data(), static_cast<int>(input.size()))) return;
  const auto value = rpc::from_proto(message);
  if (!value.has_value()) {
    CHECK(value.error().code == ErrorCode::Corrupt, value.error().message);
    return;
  }
  // Bytes are compared, not values: a metric may be NaN, which equals nothing.
  const std::string sent = rpc::to_proto(*value).SerializeAsString();
  Proto received;
  CHECK(received.ParseFromString(sent));
  const auto again = rpc::from_proto(received);
  CHECK(again.has_value(), again.has_value() ? "" : again.error().message);
  CHECK(rpc::to_proto(*again).SerializeAsString() == sent);
}

template <class Value>
Bytes serialised(const Value& value) {
  return to_bytes(rpc::to_proto(value).SerializeAsString());
}

}  // namespace

Bytes make_seed(Rng& rng) {
  rpc::RandomValues values(rng);
  switch (rng.below(4)) {
    case 0:
      return serialised(values.host_event());
    case 1:
      return serialised(values.host_command());
    case 2:
      return serialised(values.job_event());
    default:
      return serialised(values.job_spec());
  }
}

void check_input(std::span<const std::byte> input) {
  check_message<proto::HostEvent>(input);
  check_message<proto::HostCommand>(input);
  check_message<proto::JobEvent>(input);
  check_message<proto::JobSpec>(input);
}

}  // namespace paceline::fuzz
