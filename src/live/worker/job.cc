#include "live/worker/job.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "core/model/micro_batch.h"
#include "live/os/clock.h"
#include "live/os/priority.h"
#include "live/os/quiet_thread.h"

namespace paceline::worker {
namespace {

// Waits end by notification; this only bounds the harm of one that was missed.
constexpr Duration kWaitLimit = Duration::milliseconds(100);

}  // namespace

Result<std::unique_ptr<Job>> Job::open(SessionOptions options) {
  const SessionOptions identity{.self = options.self,
                                .seed = options.seed,
                                .reduce = options.reduce,
                                .is_joiner = options.is_joiner,
                                .checkpoint = options.checkpoint,
                                .agent_socket = {},
                                .ring = {}};
  TRY_ASSIGN(std::unique_ptr<Session> session, Session::open(std::move(options)));
  return std::unique_ptr<Job>(new Job(std::move(session), identity));
}

Job::Job(std::unique_ptr<Session> session, const SessionOptions& options)
    : rank_(options.self),
      seed_(options.seed),
      reduce_(options.reduce),
      checkpoints_(options.checkpoint, options.self, os::now()),
      session_(std::move(session)) {
  session_->watch_this_thread();
  if (!session_->has_agent()) return;
  progress_ = os::start_quiet_thread("paceline", [this] { serve(); });
}

Job::~Job() {
  finish_copy();
  if (!progress_.joinable()) return;
  {
    const os::MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  session_->poller().wake();
  progress_.join();
  if (preparing_.joinable()) preparing_.join();
}

void Job::serve() {
  os::prefer_short_slices();
  session_->ring().arm_bell();
  Duration limit;  // the first look is at once
  for (bool is_stopping = false; !is_stopping;) {
    const std::vector<Poller::Event> events = session_->poller().wait(limit);
    bool has_changed = false;
    bool wants_memory = false;
    mutex_.give_way();
    {
      const os::MutexLock lock(mutex_);
      const Instant now = os::now();
      session_->tick(now);
      session_->handle(events, now);
      has_changed = session_->take_changed();
      wants_memory = session_->wants_copy_memory();
      limit = session_->next_tick() - os::now();
      is_stopping = is_stopping_;
    }
    // Whoever wakes up finds the mutex free.
    if (has_changed) changed_.notify_all();
    if (wants_memory) prepare_copy_memory();
  }
  session_->ring().disarm_bell();
}

// --- Before the first step ---

paceline_status Job::register_bucket(std::string name, std::span<const uint64_t> element_counts,
                                     collective::Dtype dtype, uint32_t* bucket) {
  if (stage_ != Stage::Setup)
    return fail(PACELINE_EINVAL, "register_bucket: only before the first begin_step");
  if (registered_.size() >= kMaxBuckets)
    return fail(PACELINE_EINVAL, str("register_bucket: at most ", kMaxBuckets, " buckets"));
  Result<collective::BucketLayout> layout = collective::make_layout(element_counts);
  if (!layout) return fail(PACELINE_EINVAL, "register_bucket: " + layout.error().message);
  *bucket = static_cast<uint32_t>(registered_.size());
  registered_.emplace_back(std::move(name), std::move(*layout), dtype, reduce_);
  return PACELINE_OK;
}

paceline_status Job::register_state(std::string name, std::span<std::byte> bytes) {
  if (stage_ != Stage::Setup)
    return fail(PACELINE_EINVAL, "register_state: only before the first begin_step");
  const Status status = state_.add(std::move(name), bytes);
  if (!status) return fail(PACELINE_EINVAL, "register_state: " + status.error().message);
  return PACELINE_OK;
}

paceline_status Job::start() {
  if (registered_.empty())
    return fail(PACELINE_EINVAL, "begin_step: register at least one bucket first");
  const Status status =
      session_->start(std::move(registered_), state_.size_bytes(), initial_, os::now());
  if (!status) return fail(PACELINE_EIO, "begin_step: " + status.error().message);
  stage_ = Stage::Between;
  session_->poller().wake();
  return PACELINE_OK;
}

// --- The loop ---

paceline_status Job::begin_step(paceline_step* step) {
  if (stage_ == Stage::InStep) {
    const os::MutexLock lock(mutex_);
    return refuse("begin_step: finish_step has not returned OK");
  }
  if (stage_ == Stage::Ended) return fail(PACELINE_EINVAL, "begin_step: this rank has ended");
  if (const paceline_status status = resume(); status != PACELINE_OK) return status;
  for (;;) {
    offer_copy();
    offer_digest();
    save_state(SaveWhen::Due);
    const os::MutexLock lock(mutex_);
    if (stage_ == Stage::Setup) {
      session_->watch_this_thread();
      if (const paceline_status status = start(); status != PACELINE_OK) return status;
    }
    if (const paceline_status status = wait_for_membership(); status != PACELINE_OK) return status;
    if (session_->has_snapshot() || session_->wants_copy() || session_->wants_digest()) continue;
    session_->enter_phase(RankPhase::Outside, os::now());
    if (session_->core().phase() == rank::Phase::Left) {
      stage_ = Stage::Ended;
      return PACELINE_LEFT;
    }
    if (session_->core().epoch().is_last) {
      stage_ = Stage::Ended;
      return PACELINE_STOP;
    }
    const uint32_t micro_batches = session_->micro_batches();
    if (resumed_micro_batches_.value_or(micro_batches) != micro_batches)
      return fail(PACELINE_EINVAL,
                  str("begin_step: the checkpoint was made with ", *resumed_micro_batches_,
                      " micro-batches a step, not ", micro_batches));
    session_->begin_step(os::now());
    stage_ = Stage::InStep;
    step_ = session_->core().position().step;
    *step = {step_.value(), session_->micro_batches()};
    return PACELINE_OK;
  }
}

paceline_status Job::wait_for_membership() {
  for (;;) {
    if (session_->has_snapshot()) {
      if (copying_.joinable()) return PACELINE_OK;  // the copy first: it reads what this overwrites
      load_snapshot();
    }
    session_->follow_donor({.takes_sums = false}, os::now());
    const rank::RankCore& core = session_->core();
    if (core.phase() == rank::Phase::Left) return PACELINE_OK;
    if (core.phase() == rank::Phase::Joining) {
      if (session_->has_state()) return PACELINE_OK;
      session_->enter_phase(RankPhase::Heal, os::now());
    } else if (core.epoch().number != EpochNumber(0)) {
      return PACELINE_OK;
    }
    if (const paceline_status status = check_alive(); status != PACELINE_OK) return status;
    wait();
  }
}

void Job::offer_copy() {
  finish_copy();
  std::vector<std::byte> own_state;
  std::optional<Snapshot> copy;
  {
    const os::MutexLock lock(mutex_);
    if (!session_->is_started() || !session_->wants_copy()) return;
    own_state = session_->own_state();
    copy = session_->begin_copy(state_.size_bytes() + own_state.size());
  }
  if (!copy) return;
  copy_ = std::move(*copy);
  copying_ = os::start_quiet_thread("paceline-copy", [this, own_state = std::move(own_state)] {
    std::vector<std::span<const std::byte>> parts;
    for (const StateRegistry::Part& part : state_.parts()) parts.push_back(part.bytes);
    parts.emplace_back(own_state);
    copy_.fill(parts);
  });
}

void Job::finish_copy() {
  if (!copying_.joinable()) return;
  copying_.join();
  copy_.seal();
  const os::MutexLock lock(mutex_);
  session_->give_copy(std::exchange(copy_, {}));
}

// Its pages are touched by a thread of its own, at a low priority: only the joiner waits for it.
void Job::prepare_copy_memory() {
  if (preparing_.joinable()) preparing_.join();  // it has handed its memory over
  std::optional<Snapshot> memory;
  {
    const os::MutexLock lock(mutex_);
    memory = session_->reserve_copy_memory(state_.size_bytes());
  }
  if (!memory) return;
  auto touch = [this, memory = std::move(*memory)]() mutable {
    os::lower_thread_priority();
    memory.touch();
    const os::MutexLock lock(mutex_);
    session_->give_copy_memory(std::move(memory));
  };
  preparing_ = os::start_quiet_thread("paceline-copy", std::move(touch));
}

// Without the mutex: nothing else touches the state, and no turn can be committed meanwhile.
void Job::offer_digest() {
  {
    const os::MutexLock lock(mutex_);
    if (!session_->wants_digest()) return;
  }
  const uint64_t digest = state_digest();
  const os::MutexLock lock(mutex_);
  session_->give_digest(digest);
}

void Job::load_snapshot() {
  const Snapshot& snapshot = session_->snapshot();
  std::vector<std::byte> own_state(snapshot.size_bytes - state_.size_bytes());
  std::vector<std::span<std::byte>> parts;
  for (const StateRegistry::Part& part : state_.parts()) parts.push_back(part.bytes);
  parts.emplace_back(own_state);
  if (const Status status = snapshot.load(parts); !status) {
    session_->refuse_snapshot(status.error().message);
    return;
  }
  session_->snapshot_loaded(own_state, os::now());
  session_->confirm_snapshot(state_.digest(session_->own_state()));
}

paceline_status Job::next_micro_batch(paceline_micro_batch* micro_batch) {
  const os::MutexLock lock(mutex_);
  if (stage_ != Stage::InStep) return refuse("next_micro_batch: begin_step comes first");
  if (session_->is_in_micro_batch())
    return refuse("next_micro_batch: the micro-batch before is not accumulated in every bucket");
  const std::optional<MicroBatch> m = session_->begin_micro_batch(os::now());
  if (!m) return PACELINE_NONE;
  *micro_batch = {step_.value(), m->value(), micro_batch_seed(seed_, step_, *m)};
  return PACELINE_OK;
}

paceline_status Job::accumulate(uint32_t bucket, const void* gradient) {
  const BucketId id(bucket);
  Session::Use use;
  {
    const os::MutexLock lock(mutex_);
    if (stage_ != Stage::InStep) return refuse("accumulate: begin_step comes first");
    if (bucket >= session_->bucket_count())
      return fail(PACELINE_EINVAL, str("accumulate: there is no bucket ", bucket));
    if (!session_->is_in_micro_batch() || session_->is_accumulated(id))
      return refuse(
          str("accumulate: bucket ", bucket, " has the gradient of this micro-batch already"));
    use = session_->begin_accumulate();
  }
  if (use.is_added) session_->bucket(id).accumulate(gradient);
  uint64_t digest = 0;
  if (use.is_digested)
    digest = gradient_digest(id, {static_cast<const std::byte*>(gradient),
                                  static_cast<size_t>(session_->bucket(id).gradient_bytes())});
  const os::MutexLock lock(mutex_);
  session_->end_accumulate(id, digest, os::now());
  return PACELINE_OK;
}

paceline_status Job::finish_step() {
  const paceline_status status = end_step();
  if (status != PACELINE_MORE) finish_copy();  // the program may change its state from here on
  return status;
}

paceline_status Job::end_step() {
  const os::MutexLock lock(mutex_);
  if (stage_ != Stage::InStep) return refuse("finish_step: begin_step comes first");
  if (session_->is_in_micro_batch())
    return refuse("finish_step: the micro-batch begun last is not accumulated in every bucket");
  session_->enter_phase(RankPhase::Wait, os::now());
  paceline_status status = PACELINE_OK;
  for (;;) {
    const rank::RankCore& core = session_->core();
    session_->follow_donor({.takes_sums = true}, os::now());
    // The step is given up: the job ends at the commit before it.
    if (core.phase() == rank::Phase::Member && core.epoch().is_last && !core.is_open() &&
        core.position().step == step_) {
      stage_ = Stage::Ended;
      status = PACELINE_LEFT;
      break;
    }
    // A joiner that has become a member takes part in the step that it is in.
    const bool is_here = core.position().step == step_ && !core.is_open();
    if (is_here && core.phase() == rank::Phase::Member) session_->begin_step(os::now());
    // State taken anew replaces whatever the program makes of this step.
    if (core.position().step > step_ || session_->has_snapshot()) {
      stage_ = Stage::Between;
      break;
    }
    if (core.phase() == rank::Phase::Left) {
      stage_ = Stage::Ended;
      status = PACELINE_LEFT;
      break;
    }
    if (core.has_work() || session_->has_trial()) {
      status = PACELINE_MORE;
      break;
    }
    status = check_alive();
    if (status != PACELINE_OK) break;
    wait();
  }
  session_->enter_phase(RankPhase::Outside, os::now());
  return status;
}

const float* Job::sum(uint32_t bucket) {
  const os::MutexLock lock(mutex_);
  const bool has_sum = stage_ == Stage::Between && session_->is_started() &&
                       session_->core().position().step > Step(0) &&
                       bucket < session_->bucket_count();
  return has_sum ? session_->bucket(BucketId(bucket)).published() : nullptr;
}

// --- The rest ---

paceline_status Job::barrier() {
  const os::MutexLock lock(mutex_);
  if (stage_ != Stage::Between)
    return refuse("barrier: only between finish_step returning OK and the next begin_step");
  session_->enter_phase(RankPhase::Wait, os::now());
  session_->arrive_at_barrier(os::now());
  const paceline_status status = wait_at_barrier();
  session_->enter_phase(RankPhase::Outside, os::now());
  return status;
}

// Whoever still heals is waited for by nobody and waits for nobody.
paceline_status Job::wait_at_barrier() {
  for (;;) {
    const rank::Phase phase = session_->core().phase();
    if (phase == rank::Phase::Left) {
      stage_ = Stage::Ended;
      return PACELINE_LEFT;
    }
    if (phase == rank::Phase::Joining || session_->is_barrier_passed()) return PACELINE_OK;
    if (const std::optional<SlotId> slot = session_->barrier_refused_by())
      return fail(PACELINE_EINVAL,
                  str("barrier: rank ", *slot, " does not come to it: it has begun step ",
                      session_->core().position().step, " or ended its loop"));
    if (const paceline_status status = check_alive(); status != PACELINE_OK) return status;
    wait();
  }
}

paceline_status Job::log_metric(const char* name, double value) {
  const os::MutexLock lock(mutex_);
  session_->add_metric(name, value);
  return PACELINE_OK;
}

uint64_t Job::state_digest() {
  std::vector<std::byte> own_state;
  {
    const os::MutexLock lock(mutex_);
    own_state = session_->own_state();
  }
  return state_.digest(own_state);
}

uint32_t Job::world_size() {
  const os::MutexLock lock(mutex_);
  if (!session_->is_started()) return 1;
  return std::max(1u, static_cast<uint32_t>(session_->core().epoch().members.size()));
}

bool Job::is_lead() {
  const os::MutexLock lock(mutex_);
  return session_->is_started() && session_->is_lead();
}

paceline_status Job::finalize() {
  const uint64_t digest = state_digest();
  if (stage_ != Stage::InStep) {
    {
      const os::MutexLock lock(mutex_);
      session_->enter_phase(RankPhase::Done, os::now());
    }
    save_last_state();
  }
  {
    const os::MutexLock lock(mutex_);
    session_->enter_phase(RankPhase::Done, os::now());
    if (!session_->has_agent() || !session_->is_started()) return PACELINE_OK;
    session_->send_done(digest);
  }
  for (;;) {
    offer_copy();
    finish_copy();
    const os::MutexLock lock(mutex_);
    if (session_->is_released()) return PACELINE_OK;
    if (const paceline_status status = check_alive(); status != PACELINE_OK) return status;
    if (!session_->wants_copy()) wait();
  }
}

void Job::abort() {
  is_aborted_.store(true, std::memory_order_relaxed);
  changed_.notify_all();
}

paceline_status Job::check_alive() {
  if (is_aborted_.load(std::memory_order_relaxed))
    return fail(PACELINE_EABORT, "paceline_abort was called");
  if (session_->is_agent_gone())
    return fail(PACELINE_EAGENT, "the agent of this host is gone; this process should end");
  return PACELINE_OK;
}

void Job::wait() { changed_.wait_for(mutex_, kWaitLimit); }

paceline_status Job::fail(paceline_status status, std::string text) {
  last_error_ = std::move(text);
  return status;
}

paceline_status Job::refuse(std::string text) {
  session_->note_refusal(os::now());
  return fail(PACELINE_EINVAL, std::move(text));
}

}  // namespace paceline::worker
