// A libpaceline that only trains: the C ABI of paceline.h with the same micro-batches, the same
// rounding and the same ring, but no agent, controller, vote, record or repair. What the rest costs
// is the difference between a program under `pace run` and the same program with this library.
//
//   PACELINE_NULL_RANK, PACELINE_NULL_RANKS   who this is
//   PACELINE_NULL_NEXT, PACELINE_NULL_PREVIOUS  connected sockets that the process inherits
//   PACELINE_MICRO_BATCHES                    V
#include <algorithm>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "core/collective/layout.h"
#include "core/model/micro_batch.h"
#include "live/wire/rank_ring.h"
#include "null_runtime/null_ring.h"
#include "paceline/paceline.h"

namespace {

using paceline::MemberIndex;
using paceline::MicroBatch;
using paceline::Step;
using paceline::collective::Dtype;

uint32_t number_in_environment(const char* name, uint32_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

struct Identity {
  MemberIndex ranks = static_cast<MemberIndex>(number_in_environment("PACELINE_NULL_RANKS", 1));
  MemberIndex rank = static_cast<MemberIndex>(number_in_environment("PACELINE_NULL_RANK", 0));
  int next = static_cast<int>(number_in_environment("PACELINE_NULL_NEXT", 0));
  int previous = static_cast<int>(number_in_environment("PACELINE_NULL_PREVIOUS", 0));
};

}  // namespace

struct paceline_job {
  Identity identity;
  uint64_t seed = 0;
  uint32_t micro_batches = 1;
  uint64_t step = 0;
  uint32_t next_index = 0;  // of this rank's share: every ranks-th micro-batch
  std::vector<paceline::worker::Bucket> buckets;
  std::vector<std::span<const std::byte>> states;
  paceline::bench::NullRing ring{
      identity.ranks, identity.rank, {.next = identity.next, .previous = identity.previous}};
};

paceline_status paceline_init(const paceline_options* options, paceline_job** job) {
  *job = new paceline_job;  // owned by the caller until paceline_finalize
  if (options != nullptr) (*job)->seed = options->seed;
  const uint32_t asked = options != nullptr ? options->micro_batches : 1;
  (*job)->micro_batches =
      std::max(number_in_environment(paceline::wire::kMicroBatchesEnvironment, asked), 1u);
  return PACELINE_OK;
}

paceline_status paceline_finalize(paceline_job* job) {
  delete job;
  return PACELINE_OK;
}

paceline_status paceline_register_bucket(paceline_job* job, const char* name,
                                         const size_t* element_counts, size_t tensor_count,
                                         paceline_dtype dtype, uint32_t* bucket) {
  const std::vector<uint64_t> counts(element_counts, element_counts + tensor_count);
  auto layout = paceline::collective::make_layout(counts);
  if (!layout || dtype != PACELINE_F32) return PACELINE_EINVAL;
  *bucket = static_cast<uint32_t>(job->buckets.size());
  job->buckets.emplace_back(name, *layout, Dtype::F32, paceline::ReduceMode::Exact);
  job->buckets.back().set_micro_batches(job->micro_batches);
  return PACELINE_OK;
}

paceline_status paceline_register_state(paceline_job* job, const char* /*name*/, void* data,
                                        size_t size_bytes, paceline_state_kind /*kind*/) {
  job->states.emplace_back(static_cast<const std::byte*>(data), size_bytes);
  return PACELINE_OK;
}

paceline_status paceline_begin_step(paceline_job* job, paceline_step* step) {
  *step = {.step = job->step, .micro_batches = job->micro_batches};
  job->next_index = job->identity.rank;
  return PACELINE_OK;
}

paceline_status paceline_next_micro_batch(paceline_job* job, paceline_micro_batch* micro_batch) {
  if (job->next_index >= job->micro_batches) return PACELINE_NONE;
  const uint32_t index = job->next_index;
  job->next_index += job->identity.ranks;
  *micro_batch = {
      .step = job->step,
      .index = index,
      .seed = paceline::micro_batch_seed(job->seed, Step(job->step), MicroBatch(index))};
  return PACELINE_OK;
}

paceline_status paceline_accumulate(paceline_job* job, uint32_t bucket, const void* gradient) {
  job->buckets[bucket].accumulate(gradient);
  return PACELINE_OK;
}

paceline_status paceline_finish_step(paceline_job* job) {
  if (!job->ring.reduce(job->buckets)) return PACELINE_EABORT;
  const bool is_flagged = std::any_of(job->buckets.begin(), job->buckets.end(),
                                      [](const auto& bucket) { return bucket.is_flagged(); });
  for (auto& bucket : job->buckets) bucket.commit(is_flagged);
  if (is_flagged) {  // a measuring round: scales have changed, the step is computed again
    job->next_index = job->identity.rank;
    return PACELINE_MORE;
  }
  ++job->step;
  return PACELINE_OK;
}

const float* paceline_sum(paceline_job* job, uint32_t bucket) {
  return job->buckets[bucket].published();
}

paceline_status paceline_barrier(paceline_job* job) {
  return job->ring.barrier() ? PACELINE_OK : PACELINE_EABORT;
}

paceline_status paceline_log_metric(paceline_job* /*job*/, const char* /*name*/, double /*value*/) {
  return PACELINE_OK;
}

// Equal on all ranks; not the digest that libpaceline computes, which has the scales in it.
uint64_t paceline_state_digest(paceline_job* job) {
  paceline::Digest digest;
  for (const std::span<const std::byte> state : job->states)
    digest.add(std::string_view(reinterpret_cast<const char*>(state.data()), state.size()));
  return digest.value();
}

uint32_t paceline_rank(paceline_job* job) { return job->identity.rank; }

uint32_t paceline_world_size(paceline_job* job) { return job->identity.ranks; }

int paceline_is_lead(paceline_job* job) { return job->identity.rank == 0 ? 1 : 0; }

void paceline_abort(paceline_job* /*job*/) {}

const char* paceline_last_error(paceline_job* /*job*/) { return "a peer is gone"; }
