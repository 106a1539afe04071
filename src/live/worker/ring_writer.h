// RingWriter: the rank's side of its shared ring (live/wire/rank_ring.h). Without an agent the ring
// is private memory that nobody reads.
//
// The bell is the progress thread's; everything else is written under the job's mutex.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "core/model/sample.h"
#include "live/os/descriptor.h"
#include "live/wire/rank_ring.h"

namespace paceline::worker {

class RingWriter {
 public:
  static Result<RingWriter> map(os::Descriptor ring);
  static RingWriter make_private();
  ~RingWriter();
  RingWriter(RingWriter&& other) noexcept;
  RingWriter& operator=(RingWriter&&) = delete;

  wire::RankNow& now() { return ring_->now; }
  void add_sample(const RankSample& sample);
  void add_metric(Step step, std::string_view name, double value);

  // By the progress thread: at its start, and at its orderly end. Between the two its death rings.
  void arm_bell();
  void disarm_bell();

 private:
  explicit RingWriter(wire::RankRing* mapped) : ring_(mapped), is_mapped_(true) {}
  RingWriter() : private_(std::make_unique<wire::RankRing>()), ring_(private_.get()) {}

  std::unique_ptr<wire::RankRing> private_;
  wire::RankRing* ring_ = nullptr;
  bool is_mapped_ = false;
  bool is_armed_ = false;
};

}  // namespace paceline::worker
