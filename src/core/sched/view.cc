// The planner's state as plain values, and a planner made of them.
#include "core/sched/planner.h"

#include "base/check.h"

namespace paceline::sched {

View Planner::view() const {
  View view{
      .topology = topology_, .queues = {}, .down = {}, .jobs = {}, .is_protected = protected_};
  for (size_t i = 0; i < queues_.size(); ++i) view.queues.push_back(queues_[i].spec);
  for (size_t i = 0; i < topology_->node_count(); ++i)
    if (!fleet_.is_up(i)) view.down.push_back(topology_->node(i).id);
  for (const auto& [id, job] : jobs_) view.jobs.push_back(job);
  return view;
}

Planner Planner::from_view(const View& view, Policy policy) {
  auto queues = QueueTree::make(view.queues);
  CHECK(queues.has_value(), "a view holds queues that make no tree");
  Planner planner(view.topology, std::move(*queues), policy);
  for (const NodeId node : view.down)
    CHECK(planner.apply(NodeChanged{.node = node, .is_up = false}).has_value());
  for (const Job& job : view.jobs) {
    CHECK(planner.apply(JobSubmitted{job.spec}).has_value(), "job ", job.spec.id);
    if (!job.placement) continue;
    Job& running = planner.jobs_.at(job.spec.id);
    planner.dequeue(running);
    --planner.pending_count_;
    running.placement = job.placement;
    running.started = job.started;
    planner.queues_.add_allocated(running.leaf, running.total, running.spec.is_preemptible);
    for (size_t group = 0; group < job.spec.shape.groups.size(); ++group)
      for (const PodPlace& place : job.placement->groups[group])
        planner.fleet_.occupy(place, job.spec.shape.groups[group].shape);
  }
  planner.protected_ = view.is_protected;
  return planner;
}

Plan plan_from_scratch(const View& view, Policy policy, Instant now, SearchBudget& budget) {
  return Planner::from_view(view, policy).plan(now, budget);
}

}  // namespace paceline::sched
