// The C ABI (include/paceline/paceline.h) over worker::Job: checks pointers, keeps exceptions
// inside, and makes the copy of a job in a forked child inert.
#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/str.h"
#include "live/os/fork_mark.h"
#include "live/worker/environment.h"
#include "live/worker/job.h"
#include "paceline/paceline.h"

struct paceline_job {
  std::unique_ptr<paceline::worker::Job> job;
  paceline::os::ForkMark mark = {};
};

namespace {

using paceline::Result;
using paceline::collective::Dtype;
using paceline::worker::Job;
using paceline::worker::SessionOptions;

// The contract of paceline_last_error(NULL) asks for it.
thread_local std::string init_error;

bool is_usable(const paceline_job* job) { return job != nullptr && job->mark.is_mine(); }

template <class Call>
paceline_status guarded(paceline_job* job, Call&& call) {
  if (!is_usable(job)) return PACELINE_EINVAL;
  try {
    return call(*job->job);
  } catch (const std::bad_alloc&) {
    return PACELINE_EIO;
  }
}

paceline_status status_of(const paceline::Error& error) {
  return error.code == paceline::ErrorCode::InvalidArgument ? PACELINE_EINVAL : PACELINE_EIO;
}

paceline_status init_failed(const paceline::Error& error) {
  init_error = "paceline_init: " + error.message;
  return status_of(error);
}

}  // namespace

paceline_status paceline_init(const paceline_options* options, paceline_job** job) {
  if (job == nullptr) return PACELINE_EINVAL;
  *job = nullptr;
  try {
    Result<SessionOptions> settings =
        paceline::worker::options_from(paceline::worker::process_environment);
    if (!settings) return init_failed(settings.error());
    if (options != nullptr && !settings->is_seed_set) settings->seed = options->seed;
    if (settings->micro_batches == 0)
      settings->micro_batches = std::max(options != nullptr ? options->micro_batches : 0u, 1u);
    if (settings->micro_batches > paceline::kMaxMicroBatches)
      return init_failed({paceline::ErrorCode::InvalidArgument, "too many micro-batches"});
    Result<std::unique_ptr<Job>> opened = Job::open(std::move(*settings));
    if (!opened) return init_failed(opened.error());
    *job = new paceline_job{.job = std::move(*opened)};  // owned by the caller until it ends
    return PACELINE_OK;
  } catch (const std::bad_alloc&) {
    return init_failed({paceline::ErrorCode::Exhausted, "out of memory"});
  }
}

paceline_status paceline_finalize(paceline_job* job) {
  if (!is_usable(job)) return PACELINE_EINVAL;
  const std::unique_ptr<paceline_job> owned(job);
  return guarded(job, [](Job& each) { return each.finalize(); });
}

paceline_status paceline_register_bucket(paceline_job* job, const char* name,
                                         const size_t* element_counts, size_t tensor_count,
                                         paceline_dtype dtype, uint32_t* bucket) {
  if (name == nullptr || element_counts == nullptr || bucket == nullptr) return PACELINE_EINVAL;
  if (dtype < PACELINE_F32 || dtype > PACELINE_F16) return PACELINE_EINVAL;
  return guarded(job, [&](Job& each) {
    const std::vector<uint64_t> counts(element_counts, element_counts + tensor_count);
    const Dtype type = dtype == PACELINE_F32    ? Dtype::F32
                       : dtype == PACELINE_BF16 ? Dtype::Bf16
                                                : Dtype::F16;
    return each.register_bucket(name, counts, type, bucket);
  });
}

paceline_status paceline_register_state(paceline_job* job, const char* name, void* data,
                                        size_t size_bytes, paceline_state_kind kind) {
  if (name == nullptr || data == nullptr || kind != PACELINE_REPLICATED) return PACELINE_EINVAL;
  return guarded(job, [&](Job& each) {
    return each.register_state(name, {static_cast<std::byte*>(data), size_bytes});
  });
}

paceline_status paceline_begin_step(paceline_job* job, paceline_step* step) {
  if (step == nullptr) return PACELINE_EINVAL;
  return guarded(job, [&](Job& each) { return each.begin_step(step); });
}

paceline_status paceline_next_micro_batch(paceline_job* job, paceline_micro_batch* micro_batch) {
  if (micro_batch == nullptr) return PACELINE_EINVAL;
  return guarded(job, [&](Job& each) { return each.next_micro_batch(micro_batch); });
}

paceline_status paceline_accumulate(paceline_job* job, uint32_t bucket, const void* gradient) {
  if (gradient == nullptr) return PACELINE_EINVAL;
  return guarded(job, [&](Job& each) { return each.accumulate(bucket, gradient); });
}

paceline_status paceline_finish_step(paceline_job* job) {
  return guarded(job, [](Job& each) { return each.finish_step(); });
}

const float* paceline_sum(paceline_job* job, uint32_t bucket) {
  return is_usable(job) ? job->job->sum(bucket) : nullptr;
}

paceline_status paceline_barrier(paceline_job* job) {
  return guarded(job, [](Job& each) { return each.barrier(); });
}

paceline_status paceline_log_metric(paceline_job* job, const char* name, double value) {
  if (name == nullptr) return PACELINE_EINVAL;
  return guarded(job, [&](Job& each) { return each.log_metric(name, value); });
}

uint64_t paceline_state_digest(paceline_job* job) {
  return is_usable(job) ? job->job->state_digest() : 0;
}

uint32_t paceline_rank(paceline_job* job) { return is_usable(job) ? job->job->rank() : 0; }

uint32_t paceline_world_size(paceline_job* job) {
  return is_usable(job) ? job->job->world_size() : 0;
}

int paceline_is_lead(paceline_job* job) { return is_usable(job) && job->job->is_lead() ? 1 : 0; }

void paceline_abort(paceline_job* job) {
  if (is_usable(job)) job->job->abort();
}

const char* paceline_last_error(paceline_job* job) {
  if (job == nullptr) return init_error.c_str();
  if (!is_usable(job)) return "the job belongs to the parent of this process";
  return job->job->last_error();
}
