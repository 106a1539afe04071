#include "sim/world/world.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/str.h"
#include "sim/world/simulated_host.h"

namespace paceline::sim {
namespace {

// A Desired names the program; simulated ranks need none.
JobSpec job_of(const Model& model) {
  JobSpec spec;
  spec.name = "simulated";
  spec.program.arguments = {"simulated"};
  spec.hosts_min = spec.hosts_max = model.hosts;
  spec.spare_hosts = model.spare_hosts;
  spec.has_hot_spares = !model.has_cold_spares;
  spec.ranks_per_host = model.ranks_per_host;
  spec.micro_batches = model.micro_batches;
  spec.seed = model.seed;
  spec.silence_limit = model.silence_limit;
  spec.poison = model.skips_poison ? PoisonPolicy::Skip : PoisonPolicy::Stop;
  return spec;
}

}  // namespace

World::World(const Model& model)
    : model_(model),
      tags_(model.seed, model.micro_batches),
      link_(model.seed, model.link_delay, model.link_jitter) {
  for (uint32_t i = 0; i < model_.hosts + model_.spare_hosts; ++i) {
    hosts_.push_back(std::make_unique<SimulatedHost>());
    hosts_.back()->index = i;
    hosts_.back()->id = HostId(i + 1);
  }
  start_controller();
  for (auto& host : hosts_) start_agent(*host);
}

World::~World() = default;

// --- Controller ---

void World::start_controller() {
  controller_ = std::make_unique<control::ControllerCore>();
  ++controller_life_;
  for (const control::JournalRecord& record : journal_) controller_->restore(record);
  if (journal_.empty()) {
    for (const auto& host : hosts_)
      journal_.push_back(control::HostNamed{host->id, str("host", host->index)});
    controller_step(control::Submit{job_of(model_)});
  } else {
    controller_step(control::Restarted{});
  }
  for (auto& host : hosts_) connect(*host);
}

void World::controller_step(const control::Event& event) {
  if (!controller_) return;
  controller_->step(queue_.now(), event);
  control::Effects effects = controller_->take_effects();
  journal_.insert(journal_.end(), std::make_move_iterator(effects.journal.begin()),
                  std::make_move_iterator(effects.journal.end()));
  for (control::SendHost& send : effects.sends) deliver(std::move(send));
  for (const JobEvent& told : effects.watch) observe(told);
  arm_controller();
}

void World::arm_controller() {
  const std::optional<Instant> deadline = controller_->next_deadline();
  if (!deadline || (controller_timer_ && *controller_timer_ <= *deadline)) return;
  controller_timer_ = *deadline;
  queue_.at(*deadline, [this, life = controller_life_, when = *deadline] {
    if (!controller_ || life != controller_life_ || controller_timer_ != when) return;
    controller_timer_.reset();
    controller_step(control::Tick{});
  });
}

void World::deliver(control::SendHost send) {
  SimulatedHost& host = *hosts_.at(send.host.value() - 1);
  if (!host.is_stream_up) return;
  queue_.after(model_.control_delay,
               [this, &host, stream = host.stream, command = std::move(send.command)]() mutable {
                 host.run([this, &host, stream, command = std::move(command)]() mutable {
                   if (stream == host.stream && host.is_stream_up)
                     agent_step(host, agent::CommandReceived{std::move(command)});
                 });
               });
}

void World::observe(const JobEvent& event) {
  if (observer_) observer_(queue_.now(), event);
  if (const auto* incident = std::get_if<IncidentChanged>(&event))
    incidents_[incident->incident.id] = incident->incident;
  if (const auto* ended = std::get_if<JobEnded>(&event)) ended_ = *ended;
  if (const auto* turn = std::get_if<TurnCommitted>(&event))
    if (turn->skipped > 0 && !turn->is_flagged) skipped_[turn->step] = turn->skipped;
  if (const auto* goodput = std::get_if<Goodput>(&event)) goodput_ = *goodput;
}

// --- Agents ---

void World::start_agent(SimulatedHost& host) {
  ++host.agent_life;
  host.agent = std::make_unique<agent::AgentCore>(
      agent::Config{.host_name = str("host", host.index),
                    .agent_instance = host.agent_life,
                    .address = host.index + 1,
                    .windows = {.lively = model_.window, .calm = model_.quiet_window}},
      queue_.now());
  connect(host);
  host.reading_at.reset();
  arm_reading(host);
}

void World::connect(SimulatedHost& host) {
  queue_.after(model_.control_delay, [this, &host] {
    host.run([this, &host] {
      if (!controller_ || host.is_stream_up || !host.agent) return;
      host.is_stream_up = true;
      ++host.stream;
      agent_step(host, agent::StreamUp{});
    });
  });
}

void World::agent_step(SimulatedHost& host, const agent::Event& event) {
  if (!host.agent) return;
  host.agent->step(queue_.now(), event);
  for (agent::Effect& effect : host.agent->take_effects()) carry_out(host, std::move(effect));
  arm_reading(host);
}

void World::arm_reading(SimulatedHost& host) {
  if (!host.agent) return;
  const Instant due = host.agent->next_reading();
  if (host.reading_at && *host.reading_at <= due) return;
  host.reading_at = due;
  queue_.at(due, [this, &host, life = host.agent_life, due] {
    if (life == host.agent_life && host.reading_at == due) read_rings(host);
  });
}

void World::carry_out(SimulatedHost& host, agent::Effect effect) {
  if (auto* send = std::get_if<agent::Send>(&effect)) {
    queue_.after(model_.control_delay,
                 [this, &host, stream = host.stream, event = std::move(send->event)]() mutable {
                   if (!controller_ || stream != host.stream || !host.is_stream_up) return;
                   if (const auto* hello = std::get_if<AgentHello>(&event)) {
                     controller_step(control::HostConnected{host.id, *hello});
                   } else {
                     controller_step(control::HostSaid{host.id, std::move(event)});
                   }
                 });
  } else if (const auto* start = std::get_if<agent::Spawn>(&effect)) {
    spawn(host, *start);
  } else if (const auto* ask = std::get_if<agent::AskToEnd>(&effect)) {
    queue_.after(model_.local_delay,
                 [this, rank = ask->rank] { end_process(rank, {.is_killed = true, .code = 15}); });
  } else if (const auto* end = std::get_if<agent::EndGroup>(&effect)) {
    queue_.after(model_.local_delay, [this, rank = end->rank] { end_process(rank, {}); });
  } else if (auto* tell = std::get_if<agent::TellRank>(&effect)) {
    const bool is_release = std::holds_alternative<Release>(tell->order);
    queue_.after(model_.local_delay,
                 [this, rank = tell->rank, order = std::move(tell->order)]() mutable {
                   if (SimulatedRank* told = find(rank)) told->take_order(std::move(order));
                 });
    if (is_release)
      queue_.after(model_.reap_time, [this, rank = tell->rank] {
        end_process(rank, {.is_killed = false, .code = 0});
      });
  } else if (std::holds_alternative<agent::Exit>(effect)) {
    host.agent.reset();
    ++host.agent_life;
    host.is_stream_up = false;
  }
}

void World::spawn(SimulatedHost& host, const agent::Spawn& effect) {
  const int64_t process_id = next_process_id_++;
  auto rank = std::make_unique<SimulatedRank>(*this, effect.rank, host.id, process_id);
  const RankId id = rank->id();
  const auto behind = std::find_if(host.ranks.begin(), host.ranks.end(),
                                   [&](const SimulatedRank* other) { return other->id() > id; });
  host.ranks.insert(behind, rank.get());
  if (ranks_.size() <= id.slot.value()) ranks_.resize(id.slot.value() + 1);
  auto& lives = ranks_[id.slot.value()];
  if (lives.size() <= id.incarnation.value()) lives.resize(id.incarnation.value() + 1);
  std::unique_ptr<SimulatedRank>& place = lives[id.incarnation.value()];
  if (place) replaced_.push_back(std::move(place));
  place = std::move(rank);
  agent_step(host, agent::ProcessSpawned{id, process_id});
  queue_.after(model_.start_time, [this, id] {
    if (SimulatedRank* started = find(id)) started->say_hello();
  });
}

// The death bell rings at once, the exit status follows.
void World::end_process(RankId id, End end) {
  SimulatedRank* rank = find(id);
  if (rank == nullptr || !rank->is_alive()) return;
  const RankView view = rank->view();
  rank->kill();
  SimulatedHost& host = *hosts_.at(rank->host().value() - 1);
  tell_peers_of_loss(id);
  const auto tell_agent = [this, &host, life = host.agent_life](Duration delay,
                                                                agent::Event event) {
    queue_.after(delay, [this, &host, life, event] {
      host.run([this, &host, life, event] {
        if (life == host.agent_life) agent_step(host, event);
      });
    });
  };
  tell_agent(model_.local_delay, agent::BellRang{id, view});
  tell_agent(
      model_.reap_time,
      agent::ProcessEnded{.rank = id, .is_killed = end.is_killed, .code = end.code, .view = view});
}

// A host that is frozen reads when it thaws: until then its timer has run out and no other is
// armed.
void World::read_rings(SimulatedHost& host) {
  host.run([this, &host, due = queue_.now()] {
    if (!host.agent) return;
    host.reading_at.reset();
    agent::RingsRead rings;
    rings.blind = queue_.now() - due;
    std::erase_if(host.ranks, [](const SimulatedRank* rank) { return !rank->is_alive(); });
    for (SimulatedRank* rank : host.ranks) {
      rings.views.push_back(rank->view());
      for (RankSample& sample : rank->take_samples())
        rings.samples.emplace_back(rank->id(), sample);
    }
    agent_step(host, std::move(rings));
  });
}

// --- Ranks ---

SimulatedRank* World::find(RankId rank) {
  if (rank.slot.value() >= ranks_.size()) return nullptr;
  const auto& lives = ranks_[rank.slot.value()];
  return rank.incarnation.value() < lives.size() ? lives[rank.incarnation.value()].get() : nullptr;
}

SimulatedRank* World::owner_of(SlotId slot) {
  if (slot.value() >= ranks_.size()) return nullptr;
  for (const auto& rank : ranks_[slot.value()])
    if (rank && rank->is_alive()) return rank.get();
  return nullptr;
}

void World::from_rank(const SimulatedRank& rank, agent::RankMessage message) {
  SimulatedHost& host = *hosts_.at(rank.host().value() - 1);
  queue_.after(model_.local_delay, [this, &host, life = host.agent_life, message] {
    host.run([this, &host, life, message] {
      if (life == host.agent_life) agent_step(host, agent::RankSaid{message});
    });
  });
}

void World::to_peer_at(Instant sent, RankId from, RankId to, PeerMessage message) {
  if (broken_.contains({std::min(from, to), std::max(from, to)}) || is_cut(from, to)) return;
  queue_.at(link_.arrival(from, to, sent), [this, from, to, message] {
    SimulatedRank* rank = find(to);
    if (rank == nullptr || !rank->is_alive()) return;
    if (!broken_.contains({std::min(from, to), std::max(from, to)}) && !is_cut(from, to))
      rank->take_from_peer(from, message);
  });
}

void World::contribute(const Epoch& epoch, Turn turn, BucketId bucket, uint64_t tag) {
  const auto key = std::tuple(epoch.number, turn, bucket);
  Reduction& reduction = reductions_[key];
  reduction.tag += tag;
  if (++reduction.contributions < epoch.members.size()) return;
  // A ring: the sum reaches a member through the one before it, and no two at one moment.
  Rng spread(mix64(model_.seed ^ turn.value()) ^ bucket.value());
  for (size_t i = 0; i < epoch.members.size(); ++i) {
    const RankId before = epoch.members[(i + epoch.members.size() - 1) % epoch.members.size()].rank;
    const Instant sent = queue_.now() + Duration::nanoseconds(spread.between(
                                            0, model_.reduce_spread.in_nanoseconds()));
    to_peer_at(sent, before, epoch.members[i].rank, Sum{epoch.number, turn, bucket, reduction.tag});
  }
  reductions_.erase(reductions_.begin(),
                    reductions_.upper_bound(key));  // older ones cannot complete
}

void World::donor_committed(RankId donor, Turn committed, bool is_flagged) {
  const auto found = joiners_.find(donor);
  if (found == joiners_.end()) return;
  for (const RankId joiner : found->second)
    queue_.after(model_.link_delay * 2, [this, joiner, donor, committed, is_flagged] {
      if (SimulatedRank* rank = find(joiner)) rank->donor_committed(donor, committed, is_flagged);
    });
}

// Who hears from `rank` in its epoch: the member after it, and those that its votes go to.
std::vector<SimulatedRank*> World::watchers_of(RankId id) {
  std::vector<SimulatedRank*> watchers;
  const SimulatedRank* rank = find(id);
  if (rank == nullptr) return watchers;
  const Epoch& epoch = rank->core().epoch();
  const std::optional<MemberIndex> self = epoch.index_of(id);
  if (!self) return watchers;
  for (size_t hop = 1; hop < epoch.members.size(); hop *= 2) {
    SimulatedRank* watcher = find(epoch.members[(*self + hop) % epoch.members.size()].rank);
    if (watcher != nullptr && watcher->is_alive() && !watcher->is_frozen())
      watchers.push_back(watcher);
  }
  return watchers;
}

void World::tell_peers_of_loss(RankId id) {
  for (SimulatedRank* watcher : watchers_of(id))
    from_rank(*watcher, PeerTrouble{watcher->id(), id, PeerTrouble::What::ConnectionLost});
  const auto followers = joiners_.find(id);
  if (followers == joiners_.end()) return;
  for (const RankId joiner : followers->second)  // behind the last that it has sent
    queue_.after(model_.link_delay * 2, [this, joiner, id] {
      if (SimulatedRank* rank = find(joiner)) rank->donor_lost(id);
    });
  joiners_.erase(followers);
}

void World::tell_peers_of_silence(RankId id) {
  queue_.after(model_.peer_silence, [this, id] {
    const SimulatedRank* rank = find(id);
    if (rank == nullptr || !rank->is_alive() || !rank->is_frozen()) return;
    for (SimulatedRank* watcher : watchers_of(id))
      from_rank(*watcher, PeerTrouble{watcher->id(), id, PeerTrouble::What::Silent});
  });
}

// --- Run ---

Outcome World::run(Duration limit) {
  const Instant until = queue_.now() + limit;
  while (!safety_.violation() && !controller_is_finished() && queue_.now() < until)
    if (!queue_.run_one()) break;
  Outcome outcome;
  outcome.is_finished = controller_is_finished();
  outcome.ended = ended_;
  outcome.violation = safety_.violation();
  for (const auto& [id, incident] : incidents_) outcome.incidents.push_back(incident);
  outcome.goodput = goodput_;
  outcome.skipped = skipped_;
  outcome.committed = safety_.newest();
  outcome.at = queue_.now();
  outcome.events = queue_.count();
  Digest digest;
  digest.add(safety_.digest()).add(queue_.count()).add(queue_.now().in_nanoseconds());
  if (controller_) digest.add(controller_->digest());
  outcome.digest = digest.value();
  return outcome;
}

std::string World::describe() const {
  std::string text;
  for (const auto& lives : ranks_) {
    for (const auto& rank : lives) {
      if (!rank || !rank->is_alive()) continue;
      const rank::RankCore& core = rank->core();
      text += str(
          rank->id(), " on host", rank->host().value() - 1, rank->is_frozen() ? " frozen" : "",
          " phase ", static_cast<int>(core.phase()), " epoch ", core.epoch().number, " promised ",
          core.promised(), core.is_promised() ? " (waits)" : "", " committed ",
          core.position().committed, " held ", core.held_count(), core.has_voted() ? " voted" : "",
          core.has_work() ? " has work" : "", " loop ", static_cast<int>(rank->view().phase), "\n");
    }
  }
  return text;
}

bool World::controller_is_finished() const { return controller_ && controller_->is_finished(); }

}  // namespace paceline::sim
