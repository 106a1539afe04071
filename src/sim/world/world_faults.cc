// The faults of World: each breaks something now and leaves the rest to the system.
#include <algorithm>

#include "sim/world/simulated_host.h"
#include "sim/world/world.h"

namespace paceline::sim {

void World::kill_rank(SlotId slot) {
  if (const SimulatedRank* rank = owner_of(slot)) end_process(rank->id(), {});
}

void World::freeze_rank(SlotId slot) {
  SimulatedRank* rank = owner_of(slot);
  if (rank == nullptr) return;
  rank->freeze();
  tell_peers_of_silence(rank->id());
}

void World::thaw_rank(SlotId slot) {
  if (SimulatedRank* rank = owner_of(slot)) rank->thaw();
}

void World::hang_rank(SlotId slot) {
  if (SimulatedRank* rank = owner_of(slot)) rank->hang();
}

void World::skip_on_rank(SlotId slot) {
  if (SimulatedRank* rank = owner_of(slot)) rank->skip();
}

void World::slow_rank(SlotId slot, uint32_t percent) {
  if (SimulatedRank* rank = owner_of(slot)) rank->slow_down(percent);
}

void World::poison(const Skipped& micro_batch) { poison_.insert(micro_batch); }

void World::corrupt_rank(SlotId slot) {
  if (SimulatedRank* rank = owner_of(slot)) rank->corrupt();
}

void World::lose_host(uint32_t index, Duration for_time) {
  SimulatedHost& host = *hosts_.at(index);
  if (host.is_frozen) return;
  host.is_frozen = true;
  for (SimulatedRank* rank : host.ranks)
    if (rank->is_alive()) {
      rank->freeze();
      tell_peers_of_silence(rank->id());
    }
  queue_.after(for_time, [this, &host] { thaw_host(host); });
}

void World::freeze_agent(uint32_t index, Duration for_time) {
  SimulatedHost& host = *hosts_.at(index);
  if (host.is_frozen) return;
  host.is_frozen = true;
  queue_.after(for_time, [this, &host] { thaw_host(host); });
}

void World::thaw_host(SimulatedHost& host) {
  host.is_frozen = false;
  for (SimulatedRank* rank : host.ranks) rank->thaw();
  std::vector<Action> actions = std::move(host.frozen_actions);
  host.frozen_actions.clear();
  for (Action& action : actions) host.run(std::move(action));
}

// Its ranks end with it: they are started so that the kernel ends them.
void World::kill_agent(uint32_t index) {
  SimulatedHost& host = *hosts_.at(index);
  if (!host.agent || host.is_frozen) return;
  ++host.agent_life;
  host.agent.reset();
  for (SimulatedRank* rank : host.ranks)
    if (rank->is_alive()) {
      rank->kill();
      tell_peers_of_loss(rank->id());
    }
  if (host.is_stream_up) {
    host.is_stream_up = false;
    ++host.stream;
    queue_.after(model_.control_delay,
                 [this, &host] { controller_step(control::HostDisconnected{host.id}); });
  }
  queue_.after(model_.restart_controller, [this, &host] { start_agent(host); });
}

void World::kill_controller() {
  if (!controller_) return;
  controller_.reset();
  controller_timer_.reset();
  ++controller_life_;
  for (auto& host : hosts_) {
    if (!host->is_stream_up) continue;
    host->is_stream_up = false;
    ++host->stream;
    host->run([this, &host = *host] { agent_step(host, agent::StreamDown{}); });
  }
  queue_.after(model_.restart_controller, [this] { start_controller(); });
}

void World::lose_connection(SlotId a, SlotId b) {
  const SimulatedRank* from = owner_of(a);
  const SimulatedRank* to = owner_of(b);
  if (from == nullptr || to == nullptr || from == to) return;
  const auto pair = std::pair(std::min(from->id(), to->id()), std::max(from->id(), to->id()));
  broken_.insert(pair);  // what is under way is lost; a new connection is made in the next epoch
  from_rank(*from, PeerTrouble{from->id(), to->id(), PeerTrouble::What::ConnectionLost});
  queue_.after(model_.local_delay * 3, [this, pair] { broken_.erase(pair); });
}

void World::stop_job() { controller_step(control::StopRequested{}); }

void World::set_recovery_mode(RecoveryMode mode, std::string scope) {
  controller_step(control::RecoveryModeSet{mode, std::move(scope)});
}

}  // namespace paceline::sim
