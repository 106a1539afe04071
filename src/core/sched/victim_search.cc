#include "core/sched/victim_search.h"

#include <algorithm>
#include <array>
#include <functional>

#include "base/check.h"
#include "core/sched/wide.h"

namespace paceline::sched {
namespace {

// The positions of a job's nodes, each once.
std::vector<size_t> nodes_of(const Placement& placement) {
  std::vector<size_t> nodes;
  for (const std::vector<PodPlace>& pods : placement.groups)
    for (const PodPlace& place : pods) nodes.push_back(place.node);
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

// The one that started last comes first, then the higher id: what has run longer stays.
bool is_newer(const Job& a, const Job& b) {
  return std::tuple(b.started, b.spec.id) < std::tuple(a.started, a.spec.id);
}

}  // namespace

VictimSearch::VictimSearch(EvictionTrial& trial, Fleet& fleet, const Job& job, Rights rights,
                           SearchBudget& budget)
    : trial_(trial),
      fleet_(fleet),
      job_(job),
      rights_(rights),
      budget_(budget),
      before_(trial.standing()) {
  for (const NodeClass& kind : fleet.topology().classes())
    is_eligible_.push_back(job.spec.shape.groups.front().shape.matches(kind));
}

std::optional<EvictionChoice> VictimSearch::run(Instant now) {
  const std::vector<Candidate> all = candidates(now);
  if (all.empty()) return std::nullopt;
  const Topology& topology = fleet_.topology();
  const JobShape& shape = job_.spec.shape;
  const bool is_single = shape.groups.size() == 1;
  const Closeness closeness =
      is_single ? joint_closeness(shape, shape.groups.front()) : shape.closeness;
  const LevelRange levels =
      levels_of(Closeness{.required = closeness.required}, topology, Level(0));
  for (int level = levels.finest.value(); level >= levels.coarsest.value(); --level)
    for (const Scope& scope : scopes_at(Level(static_cast<uint8_t>(level)), all)) {
      search(scope);
      if (budget_.is_spent()) return std::nullopt;
    }
  return choice_of_best();
}

std::vector<VictimSearch::Candidate> VictimSearch::candidates(Instant now) const {
  std::vector<Candidate> result;
  for (const auto& [id, other] : trial_.jobs())
    if (trial_.may_take(job_, other, rights_))
      result.push_back(Candidate{&other, harm_of(other, now)});
  std::sort(result.begin(), result.end(), [](const Candidate& a, const Candidate& b) {
    return a.harm != b.harm ? a.harm < b.harm : is_newer(*a.job, *b.job);
  });
  return result;
}

std::vector<VictimSearch::Scope> VictimSearch::scopes_at(Level level,
                                                         const std::vector<Candidate>& all) const {
  const Topology& topology = fleet_.topology();
  std::vector<Scope> scopes;
  std::vector<size_t> scope_of(topology.node_count(), SIZE_MAX);
  const auto add = [&](size_t first, size_t end) {
    std::fill(scope_of.begin() + static_cast<std::ptrdiff_t>(first),
              scope_of.begin() + static_cast<std::ptrdiff_t>(end), scopes.size());
    scopes.push_back(Scope{.first_node = first, .end_node = end});
  };
  if (level == topology.node_level()) {
    for (size_t i = 0; i < topology.node_count(); ++i) add(i, i + 1);
  } else {
    for (const DomainId id : domains_inside(topology, Topology::cluster(), level))
      add(topology.domain(id).first_node, topology.domain(id).end_node);
  }
  for (const Candidate& candidate : all)
    for (const size_t node : nodes_of(*candidate.job->placement)) {
      if (scope_of[node] == SIZE_MAX) continue;
      Candidates& inside = scopes[scope_of[node]].inside;
      if (inside.empty() || inside.back() != &candidate) inside.push_back(&candidate);
    }
  return scopes;
}

bool VictimSearch::fits(const Scope& scope) {
  const JobShape& shape = job_.spec.shape;
  if (shape.groups.size() > 1) return Placer(fleet_, budget_, nullptr).find(shape).has_value();
  if (!budget_.spend(scope.end_node - scope.first_node)) return false;
  const PodGroup& group = shape.groups.front();
  uint64_t room = 0;
  for (size_t i = scope.first_node; i < scope.end_node && room < group.pods; ++i)
    if (is_eligible_[fleet_.topology().node(i).kind.value()])
      room += fleet_.room_for(i, group.shape);
  return room >= group.pods;
}

void VictimSearch::stop(const Candidate& candidate) {
  trial_.stop(*candidate.job);
  stopped_.push_back(&candidate);
}

void VictimSearch::resume_last() {
  trial_.resume(*stopped_.back()->job);
  stopped_.pop_back();
}

void VictimSearch::search(const Scope& scope) {
  if (scope.inside.empty()) return;
  if (scope.inside.size() <= kExact) return search_exactly(scope, 0, 0, false);

  const auto per_rank = [](const Candidate* a, const Candidate* b) {
    return Wide{a->harm} * ranks_milli_of(*b->job) < Wide{b->harm} * ranks_milli_of(*a->job);
  };
  Candidates order = scope.inside;  // by harm
  search_greedily(scope, order);
  std::stable_sort(order.begin(), order.end(), per_rank);
  search_greedily(scope, order);
  std::stable_sort(order.begin(), order.end(), [](const Candidate* a, const Candidate* b) {
    return a->job->spec.priority < b->job->spec.priority;
  });
  search_greedily(scope, order);
}

// Recursion is kExact deep at most.
void VictimSearch::search_exactly(const Scope& scope, size_t next, int64_t harm, bool is_changed) {
  if (best_harm_ && harm >= *best_harm_) return;
  if (is_changed && fits(scope)) return accept(harm);  // more victims only cost more
  if (next == scope.inside.size() || !budget_.spend(1)) return;
  const Candidate& candidate = *scope.inside[next];
  // Judged anew: what was taken before may have brought its queue down to its share.
  if (trial_.may_take(job_, *candidate.job, rights_)) {
    stop(candidate);
    search_exactly(scope, next + 1, harm + candidate.harm, true);
    resume_last();
  }
  search_exactly(scope, next + 1, harm, false);
}

void VictimSearch::search_greedily(const Scope& scope, Candidates order) {
  bool has_room = false;
  for (size_t i = 0; i < order.size() && !has_room; ++i) {
    if (!trial_.may_take(job_, *order[i]->job, rights_)) continue;
    stop(*order[i]);
    has_room = fits(scope);
  }
  if (has_room) {
    Candidates costliest = stopped_;
    std::stable_sort(costliest.begin(), costliest.end(),
                     [](const Candidate* a, const Candidate* b) { return a->harm > b->harm; });
    for (const Candidate* candidate : costliest) {
      trial_.resume(*candidate->job);
      if (fits(scope)) {
        std::erase(stopped_, candidate);
      } else {
        trial_.stop(*candidate->job);
      }
    }
    int64_t harm = 0;
    for (const Candidate* candidate : stopped_) harm += candidate->harm;
    if (!best_harm_ || harm < *best_harm_) accept(harm);
  }
  while (!stopped_.empty()) resume_last();
}

void VictimSearch::accept(int64_t harm) {
  if (rights_.protection == Protection::KeepsQuota && trial_.standing_with(job_) <= before_) return;
  best_harm_ = harm;
  best_ = stopped_;
}

std::optional<EvictionChoice> VictimSearch::choice_of_best() {
  if (!best_harm_) return std::nullopt;
  CHECK(stopped_.empty());
  EvictionChoice choice{.victims = {}, .placement = {}, .harm_rank_ms = *best_harm_};
  for (const Candidate* candidate : best_) {
    stop(*candidate);
    choice.victims.push_back({candidate->job->spec.id, candidate->harm});
  }
  auto placement = Placer(fleet_, budget_, nullptr).find(job_.spec.shape);
  while (!stopped_.empty()) resume_last();
  if (budget_.is_spent()) return std::nullopt;
  CHECK(placement.has_value(), "job ", job_.spec.id, " does not fit where its victims were");
  choice.placement = std::move(*placement);
  std::sort(choice.victims.begin(), choice.victims.end(),
            [](const Victim& a, const Victim& b) { return a.job < b.job; });
  return choice;
}

}  // namespace paceline::sched
