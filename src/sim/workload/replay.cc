#include "sim/workload/replay.h"

#include <algorithm>

#include "base/check.h"

namespace paceline::sim {
namespace {

using sched::kGpu;
using sched::kMilli;

// Instants are nanoseconds in 64 bits; a replay ends long before they do.
constexpr Instant kEndOfTime = Instant() + Duration::seconds(int64_t{100} * 365 * 86'400);

// Plans at one instant: a bound that only an error passes.
constexpr uint32_t kMaxPlansAtOnce = 10'000;

// Thousandths of a GPU over a time, in GPU-milliseconds.
int64_t gpu_ms(int64_t gpu_milli, Duration time) {
  return gpu_milli * time.in_milliseconds() / kMilli;
}

// Free GPUs on nodes of which some GPU is in use.
int64_t free_in_pieces(const sched::Fleet& fleet) {
  int64_t free = fleet.free_gpus(sched::Topology::cluster());
  const std::vector<sched::NodeClass>& classes = fleet.topology().classes();
  for (size_t i = 0; i < classes.size(); ++i) {
    const size_t gpus = classes[i].gpu_count();
    const sched::NodeClassId kind(static_cast<uint16_t>(i));
    free -= int64_t{fleet.count(sched::Topology::cluster(), kind, gpus)} *
            static_cast<int64_t>(gpus) * kMilli;
  }
  return free;
}

}  // namespace

bool Replay::is_cut_short(const End& end) const {
  const auto& [when, job, evictions] = end;
  return records_[job].evictions != evictions;
}

Replay::Replay(std::shared_ptr<const sched::Topology> topology, sched::QueueTree queues,
               const Trace& trace, ReplayOptions options)
    : trace_(trace), options_(options), planner_(topology, std::move(queues), options.policy) {
  for (const sched::NodeClass& kind : topology->classes())
    gpus_per_node_ = std::max(gpus_per_node_, static_cast<int64_t>(kind.gpu_count()));
}

bool Replay::step() {
  std::optional<Instant> next;
  if (next_arrival_ < trace_.jobs.size()) next = Instant() + trace_.jobs[next_arrival_].submitted;
  while (!ends_.empty() && is_cut_short(ends_.top())) ends_.pop();
  if (!ends_.empty())
    next = std::min(next.value_or(Instant::max()), std::get<Instant>(ends_.top()));
  if (!next || *next > kEndOfTime) return false;
  pass_time(*next);
  for (; !ends_.empty() && std::get<Instant>(ends_.top()) == now_; ends_.pop())
    if (!is_cut_short(ends_.top())) end(std::get<uint64_t>(ends_.top()));
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
  spec.stop = options_.stop;
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
  run_times_.add(planner_.jobs().at(id).spec.queue, job.gpu_milli,
                 trace_.jobs[job.trace_index].duration);
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
  for (uint32_t round = 0; round < kMaxPlansAtOnce; ++round)
    if (plan_once()) return;
  ++totals_.unfinished_plans;
}

bool Replay::plan_once() {
  sched::SearchBudget budget(options_.steps_per_plan);
  const sched::Plan plan = planner_.plan(now_, budget);
  ++totals_.plans;
  digest_.add(now_.in_nanoseconds());
  for (const sched::Eviction& eviction : plan.evictions) evict(eviction);
  for (const sched::Start& begun : plan.starts) start(begun);
  return plan.is_finished;
}

// What a run of the job begins with before it gets on with its work.
Duration Replay::overhead_of(const JobRecord& job) const {
  return job.evictions == 0 ? Duration() : options_.stop.restart;
}

void Replay::start(const sched::Start& start) {
  JobRecord& record = records_[start.job.value()];
  const Duration left = trace_.jobs[record.trace_index].duration - record.kept;
  record.started = now_;
  record.ended = now_ + overhead_of(record) + left;
  ends_.emplace(record.ended, start.job.value(), record.evictions);
  ++totals_.starts;
  digest_.add(start.job.value());
  for (const std::vector<sched::PodPlace>& pods : start.placement.groups)
    for (const sched::PodPlace& place : pods) digest_.add(place.node).add(place.gpus);
}

void Replay::evict(const sched::Eviction& eviction) {
  JobRecord& record = records_[eviction.job.value()];
  CHECK(record.started.has_value());
  const Duration ran = now_ - *record.started;
  const Duration worked = std::max(ran - overhead_of(record), Duration());
  Duration saved;
  if (const auto every = options_.stop.checkpoint_every; every && *every > Duration())
    saved = worked - Duration::nanoseconds(worked.in_nanoseconds() % every->in_nanoseconds());
  record.kept += saved;
  record.started.reset();
  ++record.evictions;
  ++totals_.evictions;
  totals_.gpu_ms_lost += gpu_ms(record.gpu_milli, ran - saved);
  digest_.add(eviction.job.value()).add(eviction.beneficiary.value()).add(eviction.harm_rank_ms);
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
