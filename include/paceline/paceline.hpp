// C++ API of libpaceline: a header-only layer over the C ABI of paceline.h, whose comments state
// the semantics.
//
// Errors become paceline::Error. A Job is move-only and leaves the job when it is destroyed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "paceline/paceline.h"

namespace paceline {

class Error : public std::runtime_error {
 public:
  Error(paceline_status status, const std::string& what)
      : std::runtime_error(what), status_(status) {}
  paceline_status status() const { return status_; }

 private:
  paceline_status status_;
};

enum class StepOutcome { Committed, More, Left };

class Job {
 public:
  struct Options {
    uint64_t seed = 0;
    uint32_t micro_batches = 1;
  };

  explicit Job(const Options& options) {
    const paceline_options c_options{options.seed, options.micro_batches};
    const paceline_status status = paceline_init(&c_options, &job_);
    if (status != PACELINE_OK) throw Error(status, paceline_last_error(nullptr));
  }
  ~Job() {
    if (job_ != nullptr) paceline_finalize(job_);
  }
  Job(Job&& other) noexcept : job_(std::exchange(other.job_, nullptr)) {}
  Job& operator=(Job&& other) noexcept {
    std::swap(job_, other.job_);
    return *this;
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  uint32_t register_bucket(const std::string& name, std::span<const size_t> element_counts,
                           paceline_dtype dtype = PACELINE_F32) {
    uint32_t bucket = 0;
    check(paceline_register_bucket(job_, name.c_str(), element_counts.data(), element_counts.size(),
                                   dtype, &bucket));
    return bucket;
  }

  template <class T>
  void register_state(const std::string& name, std::span<T> data) {
    static_assert(std::is_trivially_copyable_v<T>, "registered state is copied byte by byte");
    check(paceline_register_state(job_, name.c_str(), data.data(), data.size_bytes(),
                                  PACELINE_REPLICATED));
  }

  // The step to compute, or nothing when this rank should end its loop.
  std::optional<paceline_step> begin_step() {
    paceline_step step{};
    const paceline_status status = check(paceline_begin_step(job_, &step));
    if (status != PACELINE_OK) return std::nullopt;
    return step;
  }

  std::optional<paceline_micro_batch> next_micro_batch() {
    paceline_micro_batch micro_batch{};
    if (check(paceline_next_micro_batch(job_, &micro_batch)) != PACELINE_OK) return std::nullopt;
    return micro_batch;
  }

  void accumulate(uint32_t bucket, const void* gradient) {
    check(paceline_accumulate(job_, bucket, gradient));
  }

  StepOutcome finish_step() {
    switch (check(paceline_finish_step(job_))) {
      case PACELINE_OK:
        return StepOutcome::Committed;
      case PACELINE_MORE:
        return StepOutcome::More;
      default:
        return StepOutcome::Left;
    }
  }

  // REQUIRES: finish_step returned Committed and begin_step has not been called since.
  const float* sum(uint32_t bucket) const { return paceline_sum(job_, bucket); }

  // False when this rank should end its loop.
  bool barrier() { return check(paceline_barrier(job_)) == PACELINE_OK; }
  void log_metric(const std::string& name, double value) {
    check(paceline_log_metric(job_, name.c_str(), value));
  }
  uint64_t state_digest() const { return paceline_state_digest(job_); }
  uint32_t rank() const { return paceline_rank(job_); }
  uint32_t world_size() const { return paceline_world_size(job_); }
  bool is_lead() const { return paceline_is_lead(job_) != 0; }
  paceline_job* handle() const { return job_; }

 private:
  paceline_status check(paceline_status status) const {
    if (status < 0) throw Error(status, paceline_last_error(job_));
    return status;
  }

  paceline_job* job_ = nullptr;
};

}  // namespace paceline
