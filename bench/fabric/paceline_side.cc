// Paceline on heap buffers and on shared ones, and the probe: what has to be moved at least if
// every rank copies its message to where others see it, without waiting for anybody.
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "base/str.h"
#include "core/fabric/reduce.h"
#include "fabric/side.h"
#include "live/fabric/group.h"
#include "live/fabric/shared_buffers.h"

namespace paceline::bench {
namespace {

using namespace fabric;  // NOLINT(google-build-using-namespace): everything here is about it

template <class T>
T checked(Result<T> result) {
  CHECK(result.has_value(), result.has_value() ? "" : result.error().message);
  return std::move(result).value();
}

// As an agent would hand it out, but by way of /proc.
Region shared_region(const Place& place, const Region::Options& options) {
  std::unique_ptr<Region> own;
  int where[2] = {0, 0};
  if (place.rank == 0) {
    own = std::make_unique<Region>(checked(Region::make(options)));
    where[0] = ::getpid();
    where[1] = own->descriptor();
  }
  ::MPI_Bcast(where, 2, MPI_INT, 0, MPI_COMM_WORLD);
  os::Descriptor descriptor(
      ::open(str("/proc/", where[0], "/fd/", where[1]).c_str(), O_RDWR | O_CLOEXEC));
  CHECK(descriptor.is_open());
  Region region = checked(Region::attach(std::move(descriptor)));
  ::MPI_Barrier(MPI_COMM_WORLD);
  return region;
}

size_t from_environment(const char* name, size_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// What the sides of one rank share.
struct Shared {
  Shared(const Place& place, const HeapBuffers& heap)
      : region(
            shared_region(place, {.ranks = static_cast<uint32_t>(place.ranks),
                                  .cores = std::thread::hardware_concurrency(),
                                  .slot_bytes = from_environment("PACELINE_BENCH_SLOT", 0),
                                  .arena_bytes = 3 * (heap.most_elements * sizeof(float) + 4096)})),
        group(
            region, static_cast<uint32_t>(place.rank),
            {.one_shot_bytes = from_environment("PACELINE_BENCH_ONE_SHOT", Group::kChooseOneShot)}),
        buffers(region, static_cast<uint32_t>(place.rank)) {
    const size_t bytes = heap.most_elements * sizeof(float);
    input = static_cast<float*>(checked(buffers.allocate(bytes)));
    output = static_cast<float*>(checked(buffers.allocate(bytes)));
    probe = static_cast<float*>(checked(buffers.allocate(bytes)));
    std::memcpy(input, heap.input, bytes);
    std::memset(output, 0, bytes);
    std::memset(probe, 0, bytes);
  }
  Region region;
  Group group;
  SharedBuffers buffers;
  float* input;
  float* output;
  float* probe;
};

class Paceline final : public Side {
 public:
  struct Buffers {
    const float* input;
    float* output;
  };
  Paceline(std::string name, std::shared_ptr<Shared> shared, const Buffers& buffers)
      : name_(std::move(name)), shared_(std::move(shared)), buffers_(buffers) {}
  std::string name() const override { return name_; }
  bool is_offered(size_t) const override { return true; }
  void all_reduce(size_t elements) override {
    const Status status = shared_->group.all_reduce(
        {.input = buffers_.input, .output = buffers_.output, .elements = elements});
    CHECK(status.has_value(), status.has_value() ? "" : status.error().message);
  }
  const float* result() const override { return buffers_.output; }

 private:
  std::string name_;
  std::shared_ptr<Shared> shared_;  // one region and group for two sides
  Buffers buffers_;
};

class Probe final : public Side {
 public:
  Probe(std::shared_ptr<Shared> shared, const HeapBuffers& heap)
      : shared_(std::move(shared)), heap_(heap) {}
  std::string name() const override { return "probe"; }
  bool is_offered(size_t bytes) const override { return bytes >= 64u << 10; }
  void all_reduce(size_t elements) override {
    const Region& region = shared_->region;
    const uint32_t ranks = region.ranks();
    const uint32_t self = shared_->group.self();
    std::memcpy(shared_->probe, heap_.input, elements * sizeof(float));
    const Partition shards = {.elements = elements, .parts = ranks, .granule = 16};
    const size_t begin = shards.begin(self);
    std::vector<const void*> sources;
    for (uint32_t rank = 0; rank < ranks; ++rank)
      sources.push_back(region.arena(rank) + (reinterpret_cast<std::byte*>(shared_->probe + begin) -
                                              region.arena(self)));
    reduce({.type = ElementType::F32,
            .reduction = Reduction::Sum,
            .sources = sources,
            .destination = shared_->probe + begin,
            .count = shards.count(self)});
    std::memcpy(heap_.output, shared_->probe, elements * sizeof(float));
  }
  const float* result() const override { return nullptr; }

 private:
  std::shared_ptr<Shared> shared_;
  HeapBuffers heap_;
};

}  // namespace

Sides paceline_sides(const Place& place, const HeapBuffers& buffers) {
  const auto shared = std::make_shared<Shared>(place, buffers);
  Sides sides;
  sides.push_back(std::make_unique<Paceline>(
      "paceline", shared, Paceline::Buffers{.input = buffers.input, .output = buffers.output}));
  sides.push_back(std::make_unique<Paceline>(
      "paceline-shared", shared,
      Paceline::Buffers{.input = shared->input, .output = shared->output}));
  sides.push_back(std::make_unique<Probe>(shared, buffers));
  return sides;
}

}  // namespace paceline::bench
