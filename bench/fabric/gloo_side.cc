// Gloo over TCP on the loopback device, the only transport that it has inside a host. Its choice
// ("gloo", always a ring), its other algorithm in the present interface, and of the older interface
// halving and doubling, also with sockets that are polled ("gloo-busy"), its setting for latency.
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

#include "fabric/side.h"

namespace paceline::bench {
namespace {

using ContextPointer = std::shared_ptr<gloo::rendezvous::Context>;

// Contexts meet through files in a folder that rank 0 makes and removes.
class Meeting {
 public:
  explicit Meeting(const Place& place) : place_(place) {
    std::array<char, 64> path{};
    std::strcpy(path.data(), "/tmp/paceline-bench-XXXXXX");
    if (place.rank == 0 && ::mkdtemp(path.data()) == nullptr) std::abort();
    ::MPI_Bcast(path.data(), static_cast<int>(path.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
    path_ = path.data();
  }
  ~Meeting() {
    ::MPI_Barrier(MPI_COMM_WORLD);
    if (place_.rank == 0) std::filesystem::remove_all(path_);
  }
  ContextPointer context(const std::string& name) {
    gloo::transport::tcp::attr attributes;
    attributes.iface = "lo";
    auto files = std::make_shared<gloo::rendezvous::FileStore>(path_);
    gloo::rendezvous::PrefixStore store(name, *files);
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto context = std::make_shared<gloo::rendezvous::Context>(place_.rank, place_.ranks);
    context->connectFullMesh(store, device);
    return context;
  }

 private:
  Place place_;
  std::string path_;
};

class Gloo final : public Side {
 public:
  using Algorithm = gloo::AllreduceOptions::Algorithm;
  Gloo(std::string name, ContextPointer context, const HeapBuffers& buffers, Algorithm algorithm)
      : name_(std::move(name)),
        context_(std::move(context)),
        buffers_(buffers),
        algorithm_(algorithm) {}
  std::string name() const override { return name_; }
  bool is_offered(size_t) const override { return true; }
  void all_reduce(size_t elements) override {
    gloo::AllreduceOptions options(context_);
    options.setAlgorithm(algorithm_);
    options.setInput(buffers_.input, elements);
    options.setOutput(buffers_.output, elements);
    using Sum = void (*)(void*, const void*, const void*, size_t);
    options.setReduceFunction(static_cast<Sum>(&gloo::sum<float>));
    gloo::allreduce(options);
  }
  const float* result() const override { return buffers_.output; }

 private:
  std::string name_;
  ContextPointer context_;
  HeapBuffers buffers_;
  Algorithm algorithm_;
};

// In place only: works on the output buffer, whose contents it multiplies.
class GlooHalvingDoubling final : public Side {
 public:
  GlooHalvingDoubling(std::string name, ContextPointer context, const HeapBuffers& buffers)
      : name_(std::move(name)), context_(std::move(context)), buffers_(buffers) {}
  std::string name() const override { return name_; }
  bool is_offered(size_t bytes) const override { return bytes <= 4u << 20; }
  void all_reduce(size_t elements) override {
    auto& algorithm = by_size_[elements];
    if (!algorithm)
      algorithm = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(
          context_, std::vector<float*>{buffers_.output}, static_cast<int>(elements));
    algorithm->run();
  }
  const float* result() const override { return nullptr; }

 private:
  std::string name_;
  ContextPointer context_;
  HeapBuffers buffers_;
  std::map<size_t, std::unique_ptr<gloo::AllreduceHalvingDoubling<float>>> by_size_;
};

}  // namespace

Sides gloo_sides(const Place& place, const HeapBuffers& buffers) {
  Meeting meeting(place);
  Sides sides;
  const ContextPointer context = meeting.context("present");
  sides.push_back(std::make_unique<Gloo>("gloo", context, buffers, Gloo::Algorithm::UNSPECIFIED));
  sides.push_back(std::make_unique<Gloo>("gloo-bcube", context, buffers, Gloo::Algorithm::BCUBE));
  sides.push_back(
      std::make_unique<GlooHalvingDoubling>("gloo-hd", meeting.context("older"), buffers));
  const ContextPointer busy = meeting.context("busy");
  for (int peer = 0; peer < place.ranks; ++peer)
    if (peer != place.rank) busy->getPair(peer)->setSync(true, true);
  sides.push_back(std::make_unique<GlooHalvingDoubling>("gloo-busy", busy, buffers));
  return sides;
}

}  // namespace paceline::bench
