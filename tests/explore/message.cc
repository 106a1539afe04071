#include "message.h"

#include "base/str.h"

namespace paceline::explore {
namespace {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace

Message message_of(const ControlMessage& message) {
  return std::visit([](const auto& m) { return Message(m); }, message);
}

ControlMessage control_of(const Message& message) {
  if (const auto* m = std::get_if<Announce>(&message)) return *m;
  if (const auto* m = std::get_if<Prepare>(&message)) return *m;
  if (const auto* m = std::get_if<Activate>(&message)) return *m;
  return std::get<Out>(message);
}

uint64_t digest_of(const Message& message) {
  Digest d;
  d.add(message.index());
  std::visit(Overloaded{
                 [&](const Contribution& m) {
                   d.add(m.epoch.value()).add(m.turn.value()).add(m.bucket.value()).add(m.tag);
                   d.add(m.ghost_micro_batches).add(m.ghost_turn.value());
                 },
                 [&](const Vote& m) {
                   d.add(m.epoch.value()).add(m.turn.value()).add(m.hop);
                   d.add(m.carried_low.value()).add(m.carried_high.value());
                 },
                 [&](const Announce& m) { m.epoch.add_to(d); },
                 [&](const Prepare& m) { d.add(m.number.value()); },
                 [&](const Activate& m) { m.epoch.add_to(d); },
                 [&](const Out& m) { d.add(m.number.value()).add(m.target.value()); },
                 [&](const PrepareReport& m) {
                   d.add(m.prepare.value()).add(m.epoch.value()).add(m.committed.value());
                   d.add(m.step.value()).add(m.has_voted).add(m.held.size());
                   for (const MicroBatch micro_batch : m.held) d.add(micro_batch.value());
                 },
                 [&](const Entered& m) { d.add(m.epoch.value()); },
                 [](const HasLeft&) {},
             },
             message);
  return d.value();
}

std::string describe(const Message& message) {
  return std::visit(Overloaded{
                        [](const Contribution& m) {
                          return str("bucket ", m.bucket, " of turn ", m.turn, " epoch ", m.epoch);
                        },
                        [](const Vote& m) {
                          return str("vote (hop ", +m.hop, ") of turn ", m.turn, " epoch ", m.epoch,
                                     " naming ", m.carried_low, "..", m.carried_high);
                        },
                        [](const Announce& m) { return str("Announce(", m.epoch.number, ")"); },
                        [](const Prepare& m) { return str("Prepare(", m.number, ")"); },
                        [](const Activate& m) {
                          return str("Activate(", m.epoch.number, ", turn ", m.epoch.target, ")");
                        },
                        [](const Out& m) { return str("Out(", m.number, ")"); },
                        [](const PrepareReport& m) {
                          std::string held;
                          for (const MicroBatch micro_batch : m.held) held += str(" ", micro_batch);
                          return str("report to Prepare(", m.prepare, "): epoch ", m.epoch,
                                     ", committed ", m.committed, m.has_voted ? ", has voted" : "",
                                     ", holds", held);
                        },
                        [](const Entered& m) { return str("word that it is in epoch ", m.epoch); },
                        [](const HasLeft&) { return std::string("word that it has left"); },
                    },
                    message);
}

}  // namespace paceline::explore
