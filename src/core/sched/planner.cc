#include "core/sched/planner.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"

namespace paceline::sched {
namespace {

// For the question whether a new job fits an empty cluster: as much as a cluster of 100,000 nodes
// and a few dozen tries ask for.
constexpr uint64_t kFeasibilitySteps = 10'000'000;

}  // namespace

Planner::Planner(std::shared_ptr<const Topology> topology, QueueTree queues, Policy policy)
    : topology_(std::move(topology)),
      policy_(policy),
      queues_(std::move(queues)),
      fleet_(topology_),
      empty_(topology_),
      pending_(queues_.size()) {}

Status Planner::apply(const Delta& delta) {
  protected_.clear();
  if (const auto* submitted = std::get_if<JobSubmitted>(&delta)) return submit(*submitted);
  if (const auto* ended = std::get_if<JobEnded>(&delta)) return end(*ended);
  return change_node(std::get<NodeChanged>(delta));
}

Status Planner::submit(const JobSubmitted& submitted) {
  const JobSpec& spec = submitted.job;
  TRY(check_job(spec, *topology_));
  const std::optional<size_t> leaf = queues_.find(spec.queue);
  if (!leaf || !queues_[*leaf].children.empty())
    return Failure{ErrorCode::NotFound,
                   str("job ", spec.name, ": queue ", spec.queue,
                       leaf ? " has queues below it; jobs go there" : " is not there")};
  const auto shape =
      shapes_.emplace(spec.shape, static_cast<uint32_t>(shapes_.size())).first->second;
  const auto [entry, is_new] = jobs_.emplace(
      spec.id, Job{.spec = spec, .leaf = *leaf, .shape = shape, .total = spec.shape.total()});
  if (!is_new)
    return Failure{ErrorCode::AlreadyExists, str("job id ", spec.id, " is there already")};
  Job& job = entry->second;

  SearchBudget budget(kFeasibilitySteps);
  const auto verdict = verdict_when_empty(Question{job.spec, job.leaf, queues_}, empty_, budget);
  ++pending_count_;
  if (verdict && verdict->answer == Answer::Never) {
    job.never = verdict;  // asks for nothing that a share could give it
  } else {
    queues_.add_request(job.leaf, job.total);
    enqueue(job);
  }
  return {};
}

Planner::PendingKey Planner::key_of(const Job& job) const {
  const int64_t length = policy_.order == JobOrder::Age
                             ? 0
                             : job.spec.expected.value_or(Duration::max()).in_nanoseconds();
  return {-int64_t{job.spec.priority}, length, job.spec.submitted.in_nanoseconds(), job.spec.id};
}

void Planner::enqueue(const Job& job) { pending_[job.leaf].insert(key_of(job)); }
void Planner::dequeue(const Job& job) { pending_[job.leaf].erase(key_of(job)); }

Status Planner::end(const JobEnded& ended) {
  const auto found = jobs_.find(ended.job);
  if (found == jobs_.end()) return Failure{ErrorCode::NotFound, str("no job ", ended.job)};
  Job& job = found->second;
  if (job.placement) {
    release(job);
  } else {
    --pending_count_;
    dequeue(job);
  }
  if (!job.never) queues_.add_request(job.leaf, Resources() - job.total);
  jobs_.erase(found);
  return {};
}

void Planner::release(Job& job) {
  for (size_t group = 0; group < job.spec.shape.groups.size(); ++group)
    for (const PodPlace& place : job.placement->groups[group])
      fleet_.give_back(place, job.spec.shape.groups[group].shape);
  queues_.add_allocated(job.leaf, Resources() - job.total, job.spec.is_preemptible);
  job.placement.reset();
  no_room_.clear();
}

Status Planner::change_node(const NodeChanged& changed) {
  const std::optional<size_t> position = topology_->find(changed.node);
  if (!position) return Failure{ErrorCode::NotFound, str("no node ", changed.node)};
  fleet_.set_up(*position, changed.is_up);
  no_room_.clear();
  if (changed.is_up) return {};
  const auto is_hit = [&position](const std::vector<PodPlace>& pods) {
    return std::any_of(pods.begin(), pods.end(),
                       [&position](const PodPlace& place) { return place.node == *position; });
  };
  for (auto& [id, job] : jobs_) {
    if (!job.placement ||
        std::none_of(job.placement->groups.begin(), job.placement->groups.end(), is_hit))
      continue;
    release(job);
    enqueue(job);
    ++pending_count_;
  }
  return {};
}

std::optional<Verdict> Planner::explain(JobId id) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.placement) return std::nullopt;
  const Job& job = found->second;
  if (job.never) return job.never;
  const Verdict verdict = verdict_now(Question{job.spec, job.leaf, queues_}, fleet_);
  if (verdict.cause != Cause::Search) return verdict;
  const auto name_of = [this](JobId other) {
    const auto it = jobs_.find(other);
    return it == jobs_.end() ? str("job ", other) : it->second.spec.name;
  };
  if (job.kept_for) return Verdict{.cause = Cause::Reserved, .where = name_of(*job.kept_for)};
  const JobId first = std::get<JobId>(*pending_[job.leaf].begin());
  if (policy_.backfill == Backfill::Strict && first != id)
    return Verdict{.cause = Cause::Turn, .where = name_of(first)};
  return verdict;
}

uint64_t Planner::hash() const {
  Digest digest;
  digest.add(fleet_.hash()).add(queues_.hash());
  for (const auto& [id, job] : jobs_) {
    digest.add(id.value()).add(job.placement.has_value()).add(job.started.in_nanoseconds());
    if (!job.placement) continue;
    for (const std::vector<PodPlace>& pods : job.placement->groups)
      for (const PodPlace& place : pods) digest.add(place.node).add(place.gpus);
  }
  return digest.value();
}

}  // namespace paceline::sched
