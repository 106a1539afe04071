#include "sim/workload/replay.h"

#include <algorithm>

#include "base/check.h"

namespace paceline::sim {
namespace {

using sched::kGpu;
using sched::kMilli;

// Thousandths of a GPU over a time, in GPU-milliseconds.
int64_t gpu_ms(int64_t gpu_milli, Duration time) {
  return gpu_milli * time.in_milliseconds() / kMilli;
}

// Free GPUs on nodes of which some GPU is in use.
int64_t free_in_pieces(const sched::Fleet& fleet) {
  int64_t free = fleet.free_gpus(sched::Topology::cluster());
  const std::vector<sched::NodeClass>& classes = fleet.topology().classes();
  for (uint16_t i = 0; i < classes.size(); ++i) {
    const size_t gpus = classes[i].gpu_count();
    free -= int64_t{fleet.count(sched::Topology::cluster(), sched::NodeClassId(i), gpus)} *
            static_cast<int64_t>(gpus) * kMilli;
  }
  return free;
}

}  // namespace

Replay::Replay(std::shared_ptr<const sched::Topology> topology, sched::QueueTree queues,
               const Trace& trace, ReplayOptions options)
    : trace_(trace), options_(options), planner_(topology, std::move(queues), options.policy) {
  for (const sched::NodeClass& kind : topology->classes())
    gpus_per_node_ = std::max(gpus_per_node_, static_cast<int64_t>(kind.gpu_count()));
}

bool Replay::step() {
  std::optional<Instant> next;
  if (next_arrival_ < trace_.jobs.size()) next = Instant() + trace_.jobs[next_arrival_].submitted;
  if (!ends_.empty()) next = std::min(next.value_or(Instant::max()), ends_.top().first);
  if (!next) return false;
  pass_time(*next);
  for (; !ends_.empty() && ends_.top().first == now_; ends_.pop()) {
    end(ends_.top().second);
  }
  for (; next_arrival_ < trace_.jobs.size() &&
         Instant() + trace_.jobs[next_arrival_].submitted == now_;
       ++next_arrival_)
    submit(next_arrival_);
  plan();
  return true;
}

void Replay::pass_time(Instant until) {
  const Duration passed = until - now_;
  const sched::Fleet& fleet = planner_.fleet();
  const int64_t there = fleet.up_capacity()[kGpu];
  const int64_t free = fleet.free_gpus(sched::Topology::cluster());
  totals_.gpu_ms_there += gpu_ms(there, passed);
  totals_.gpu_ms_held += gpu_ms(there - free, passed);
  totals_.gpu_ms_free += gpu_ms(free, passed);
  totals_.gpu_ms_free_in_pieces += gpu_ms(free_in_pieces(fleet), passed);
  if (planner_.pending_count() > 0) totals_.gpu_ms_idle_while_waiting += gpu_ms(free, passed);
  for (size_t i = 0; i < planner_.queues().size(); ++i) {
    const sched::Queue& queue = planner_.queues()[i];
    if (!queue.children.empty()) continue;
    QueueUse& use = use_[queue.spec.name];
    use.gpu_milliseconds_held += gpu_ms(queue.allocated[kGpu], passed);
    use.gpu_milliseconds_due += gpu_ms(queue.share[kGpu], passed);
  }
  now_ = totals_.end = until;
}

std::optional<size_t> Replay::queue_of(const TraceJob& job) const {
  const sched::QueueTree& queues = planner_.queues();
  if (queues.size() == 1) return 0;
  return queues.find(std::string_view(job.queue));
}

sched::JobSpec Replay::spec_of(const TraceJob& job, sched::JobId id, sched::QueueId queue) const {
  sched::JobSpec spec{.id = id,
                      .name = job.name,
                      .queue = queue,
                      .priority = job.priority,
                      .is_preemptible = job.is_preemptible,
                      .submitted = now_};
  const auto add_group = [&](const char* name, int64_t gpu_milli, int64_t pods) {
    if (pods == 0) return;
    const auto gpu_count =
        static_cast<uint16_t>(std::min<int64_t>((gpu_milli + kMilli - 1) / kMilli, UINT16_MAX));
    const sched::PodShape shape{.amount = sched::Resources()
                                              .with(kGpu, gpu_milli)
                                              .with(sched::kCpu, job.cpu_milli)
                                              .with(sched::kMemory, job.memory_mib),
                                .gpu_count = gpu_count,
                                .gpu_models = job.gpu_models};
    spec.shape.groups.push_back(
        {.name = name, .shape = shape, .pods = static_cast<uint32_t>(pods)});
  };
  const int64_t node = gpus_per_node_ * kMilli;
  if (job.pods > 0 || job.gpu_milli <= node || node == 0) {
    add_group("workers", job.gpu_milli, std::max<int64_t>(job.pods, 1));
  } else {
    add_group("nodes", node, job.gpu_milli / node);
    add_group("rest", job.gpu_milli % node, job.gpu_milli % node == 0 ? 0 : 1);
  }
  spec.expected = expected(job, spec);
  return spec;
}

std::optional<Duration> Replay::expected(const TraceJob& job, const sched::JobSpec& spec) const {
  if (options_.foresight == Foresight::Perfect) return job.duration;
  if (job.expected || options_.foresight == Foresight::Stated) return job.expected;
  return run_times_.expected(spec.queue, spec.shape.total()[kGpu], options_.learned_permille);
}

void Replay::end(size_t record) {
  const JobRecord& job = records_[record];
  const sched::JobId id(record);
  run_times_.add(planner_.jobs().at(id).spec.queue, job.gpu_milli, job.ended - *job.started);
  CHECK(planner_.apply(sched::JobEnded{id}).has_value());
  ++ended_count_;
}

void Replay::submit(size_t trace_index) {
  const TraceJob& job = trace_.jobs[trace_index];
  const std::optional<size_t> queue = queue_of(job);
  if (!queue) {
    bad_rows_.push_back(
        BadRow{job.line, str("queue '", job.queue, "' is not in the cluster file")});
    return;
  }
  const sched::JobId id(records_.size());
  const sched::JobSpec spec = spec_of(job, id, planner_.queues()[*queue].spec.id);
  const Status status = planner_.apply(sched::JobSubmitted{spec});
  if (!status) {
    bad_rows_.push_back(BadRow{job.line, status.error().message});
    return;
  }
  records_.push_back(JobRecord{.trace_index = trace_index,
                               .gpu_milli = spec.shape.total()[kGpu],
                               .queue = planner_.queues()[*queue].spec.name});
}

void Replay::plan() {
  sched::SearchBudget budget(options_.steps_per_plan);
  const sched::Plan plan = planner_.plan(now_, budget);
  ++totals_.plans;
  totals_.unfinished_plans += plan.is_finished ? 0 : 1;
  digest_.add(now_.in_nanoseconds());
  for (const sched::Start& start : plan.starts) {
    JobRecord& record = records_[start.job.value()];
    record.started = now_;
    record.ended = now_ + trace_.jobs[record.trace_index].duration;
    ends_.emplace(record.ended, start.job.value());
    ++totals_.starts;
    digest_.add(start.job.value());
    for (const std::vector<sched::PodPlace>& pods : start.placement.groups)
      for (const sched::PodPlace& place : pods) digest_.add(place.node).add(place.gpus);
  }
}

std::vector<std::pair<size_t, std::string>> Replay::left_over() const {
  std::vector<std::pair<size_t, std::string>> result;
  for (size_t i = 0; i < records_.size(); ++i) {
    if (records_[i].started) continue;
    const auto verdict = planner_.explain(sched::JobId(i));
    result.emplace_back(records_[i].trace_index, verdict ? verdict->text() : "");
  }
  return result;
}

}  // namespace paceline::sim
