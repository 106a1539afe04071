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

void World::cut_path(uint32_t a, uint32_t b, Cut how) {
  const HostId low = hosts_.at(std::min(a, b))->id;
  const HostId high = hosts_.at(std::max(a, b))->id;
  cut_[{low, high}] = how;
  for (const auto& host : hosts_)
    for (const SimulatedRank* rank : host->ranks)
      if (rank->is_alive())
        tell_of_cut_paths(*rank, model_.peer_silence, PeerTrouble::What::Silent);
}

void World::mend_path(uint32_t a, uint32_t b) {
  cut_.erase({hosts_.at(std::min(a, b))->id, hosts_.at(std::max(a, b))->id});
}

std::optional<World::Cut> World::cut_between(RankId a, RankId b) {
  if (cut_.empty()) return std::nullopt;
  const SimulatedRank* one = find(a);
  const SimulatedRank* other = find(b);
  if (one == nullptr || other == nullptr) return std::nullopt;
  const auto found =
      cut_.find({std::min(one->host(), other->host()), std::max(one->host(), other->host())});
  return found == cut_.end() ? std::nullopt : std::optional(found->second);
}

void World::connect_to_peers(const SimulatedRank& rank) {
  tell_of_cut_paths(rank, model_.connect_limit, PeerTrouble::What::ConnectionLost);
}

// Of each cut path that the rank uses: it is refused within a few round trips, or nothing is heard
// for `silence`, which the rank tells as `what`.
void World::tell_of_cut_paths(const SimulatedRank& rank, Duration silence, PeerTrouble::What what) {
  if (cut_.empty()) return;
  const Epoch& epoch = rank.core().epoch();
  const std::optional<MemberIndex> self = epoch.index_of(rank.id());
  if (!self) return;
  for (size_t hop = 1; hop < epoch.members.size(); hop *= 2) {
    const RankId peer = epoch.members[(*self + hop) % epoch.members.size()].rank;
    const std::optional<Cut> cut = cut_between(rank.id(), peer);
    if (!cut) continue;
    const bool is_silent = *cut == Cut::Silent;
    const PeerTrouble trouble{rank.id(), peer,
                              is_silent ? what : PeerTrouble::What::ConnectionLost};
    queue_.after(is_silent ? silence : model_.link_delay * 4,
                 [this, trouble, number = epoch.number] {
                   const SimulatedRank* reporter = find(trouble.reporter);
                   const bool is_in_epoch = reporter != nullptr && reporter->is_alive() &&
                                            !reporter->core().is_promised() &&
                                            reporter->core().epoch().number == number;
                   if (is_in_epoch) from_rank(*reporter, trouble);
                 });
  }
}

uint32_t World::begun_by(SlotId slot) {
  const SimulatedRank* rank = owner_of(slot);
  return rank == nullptr ? 0 : rank->view().begun;
}

void World::stop_job() { controller_step(control::StopRequested{}); }

void World::set_recovery_mode(RecoveryMode mode, std::string scope) {
  controller_step(control::RecoveryModeSet{mode, std::move(scope)});
}

}  // namespace paceline::sim
