// Records between a rank and its agent, control messages and epochs. Property: what is accepted is
// exactly what the encoder makes of it.
#include "core/model/control_message.h"
#include "fuzz/fuzz_target.h"
#include "live/rpc/random_values_for_test.h"
#include "live/wire/rank_record.h"

namespace paceline::fuzz {
namespace {

constexpr uint64_t kCarriers = 4;  // rank's record, agent's record, control message, epoch

wire::RankRecord random_rank_record(Rng& rng) {
  rpc::RandomValues values(rng);
  switch (rng.below(std::variant_size_v<wire::RankRecord>)) {
    case 0:
      return wire::Hello{.endpoint = {.address = values.small(), .port = 1234},
                         .buckets = values.small(),
                         .gradient_bytes = values.number(),
                         .state_bytes = values.number()};
    case 1: {
      PrepareReport report{.prepare = values.epoch(),
                           .epoch = values.epoch(),
                           .committed = values.turn(),
                           .step = values.step(),
                           .has_voted = values.flag(),
                           .held = {}};
      for (uint32_t m = 0; m < 40; ++m)
        if (values.flag()) report.held.emplace_back(m);
      return report;
    }
    case 2:
      return wire::Entered{
          .epoch = values.epoch(), .committed = values.turn(), .step = values.step()};
    case 3:
      return wire::Done{
          .has_left = values.flag(), .committed = values.turn(), .state_digest = values.number()};
    case 4:
      return wire::PeerNotice{.peer = values.rank(),
                              .what = values.pick(PeerTrouble::What::HeardAgain)};
    case 5:
      return wire::TagNotice{.turn = values.turn()};
    case 6:
      return wire::DigestNotice{.step = values.step(), .digest = values.number()};
    default:
      return wire::HealNotice{.attempt = values.small(),
                              .what = values.pick(HealProgress::What::ChunkRepaired),
                              .donor = values.rank(),
                              .detail = values.text()};
  }
}

ControlMessage random_control(Rng& rng) {
  rpc::RandomValues values(rng);
  switch (rng.below(std::variant_size_v<ControlMessage>)) {
    case 0:
      return Announce{.epoch = values.whole_epoch()};
    case 1:
      return Prepare{.number = values.epoch()};
    case 2:
      return Activate{.epoch = values.whole_epoch()};
    default:
      return Out{.number = values.epoch(), .target = values.turn()};
  }
}

wire::AgentRecord random_agent_record(Rng& rng) {
  rpc::RandomValues values(rng);
  switch (rng.below(3)) {
    case 0: {
      wire::HealOrder order{.attempt = values.small(), .donors = {}};
      for (uint64_t i = rng.below(4); i > 0; --i)
        order.donors.push_back({.rank = values.rank(), .host = values.host(), .endpoint = {}});
      return order;
    }
    case 1:
      return wire::ReleaseOrder{};
    default:
      return std::visit([](auto message) -> wire::AgentRecord { return message; },
                        random_control(rng));
  }
}

template <class Value, class Encode>
void check_exact(const Result<Value>& value, const Encode& encode,
                 std::span<const std::byte> input) {
  if (!value.has_value()) return;
  const Bytes again = encode(*value);
  CHECK(std::equal(again.begin(), again.end(), input.begin(), input.end()), again.size(), " ",
        input.size());
}

}  // namespace

Bytes make_seed(Rng& rng) {
  switch (rng.below(kCarriers)) {
    case 0:
      return wire::encode(random_rank_record(rng));
    case 1:
      return wire::encode(random_agent_record(rng));
    case 2:
      return wire::encode_control(random_control(rng));
    default:
      return wire::encode_epoch(rpc::RandomValues(rng).whole_epoch());
  }
}

void check_input(std::span<const std::byte> input) {
  const auto encode = [](const auto& record) { return wire::encode(record); };
  check_exact(wire::decode_rank_record(input), encode, input);
  check_exact(wire::decode_agent_record(input), encode, input);
  check_exact(wire::decode_control(input), wire::encode_control, input);
  check_exact(wire::decode_epoch(input), wire::encode_epoch, input);
}

}  // namespace paceline::fuzz
