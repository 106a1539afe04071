// fabric_compare MIN_BYTES MAX_BYTES BLOCKS [SIDE,SIDE...], under mpirun: all-reduce by every side,
// by turns, in the same processes and on the same buffers. Rank 0 prints a line of JSON per size:
// for each side the samples in microseconds. A sample is the mean of one block of calls, on the
// slowest rank.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "base/check.h"
#include "base/str.h"
#include "fabric/side.h"
#include "live/os/clock.h"

namespace paceline::bench {
namespace {

constexpr size_t kPageBytes = 4096;

float* touched(size_t elements, float value) {
  float* data =
      static_cast<float*>(::operator new(elements * sizeof(float), std::align_val_t(kPageBytes)));
  std::fill(data, data + elements, value);
  return data;
}

double seconds_of(Side& side, size_t elements, int calls) {
  side.all_reduce(elements);  // the caches are those of this side, as they are in a loop
  ::MPI_Barrier(MPI_COMM_WORLD);
  const Instant begun = os::now();
  for (int i = 0; i < calls; ++i) side.all_reduce(elements);
  return (os::now() - begun).in_seconds();
}

double slowest(double seconds) {
  double most = 0;
  ::MPI_Allreduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return most;
}

void expect_sum(const Side& side, size_t elements, int ranks) {
  if (side.result() == nullptr) return;
  const float expected = static_cast<float>(ranks * (ranks + 1) / 2);
  for (size_t i = 0; i < elements; ++i)
    CHECK(side.result()[i] == expected, side.name(), " element ", i, " of ", elements, ": ",
          side.result()[i]);
}

// So many that a block takes about a millisecond, and the same number on all ranks.
int calls_for(Side& side, size_t elements) {
  const double once = slowest(seconds_of(side, elements, 2)) / 2;
  return static_cast<int>(std::clamp(1.5e-3 / once, 1.0, 500.0));
}

void compare(Sides& sides, size_t bytes, int blocks, const Place& place) {
  const size_t elements = bytes / sizeof(float);
  std::vector<std::vector<double>> samples(sides.size());
  std::vector<int> calls(sides.size());
  for (size_t i = 0; i < sides.size(); ++i) {
    if (!sides[i]->is_offered(bytes)) continue;
    calls[i] = calls_for(*sides[i], elements);
    expect_sum(*sides[i], elements, place.ranks);
  }
  for (int block = 0; block < blocks; ++block)
    for (size_t step = 0; step < sides.size(); ++step) {
      const size_t i = (step + static_cast<size_t>(block)) % sides.size();
      if (calls[i] == 0) continue;
      const double seconds = slowest(seconds_of(*sides[i], elements, calls[i]));
      samples[i].push_back(seconds / calls[i] * 1e6);
    }
  if (place.rank != 0) return;
  std::printf("{\"ranks\": %d, \"bytes\": %zu, \"samples_us\": {", place.ranks, bytes);
  const char* separator = "";
  for (size_t i = 0; i < sides.size(); ++i) {
    if (calls[i] == 0) continue;
    std::printf("%s\"%s\": [", separator, sides[i]->name().c_str());
    for (size_t s = 0; s < samples[i].size(); ++s)
      std::printf("%s%.3f", s == 0 ? "" : ", ", samples[i][s]);
    std::printf("]");
    separator = ", ";
  }
  std::printf("}}\n");
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  if (argc < 4 || argc > 5) {
    std::fprintf(
        stderr,
        "usage: mpirun -n RANKS fabric_compare MIN_BYTES MAX_BYTES BLOCKS [SIDE,SIDE...]\n");
    return 64;
  }
  ::MPI_Init(&argc, &argv);
  Place place;
  ::MPI_Comm_rank(MPI_COMM_WORLD, &place.rank);
  ::MPI_Comm_size(MPI_COMM_WORLD, &place.ranks);
  const size_t smallest = std::strtoull(argv[1], nullptr, 10);
  const size_t largest = std::strtoull(argv[2], nullptr, 10);
  const int blocks = std::atoi(argv[3]);
  const size_t most = largest / sizeof(float);
  const HeapBuffers buffers = {.input = touched(most, static_cast<float>(place.rank + 1)),
                               .output = touched(most, 0),
                               .most_elements = most};
  {
    Sides sides = paceline_sides(place, buffers);
    for (auto& side : gloo_sides(place, buffers)) sides.push_back(std::move(side));
    for (auto& side : open_mpi_sides(buffers)) sides.push_back(std::move(side));
    if (argc == 5)
      std::erase_if(sides, [&](const auto& side) {
        return str(",", argv[4], ",").find(str(",", side->name(), ",")) == std::string::npos;
      });
    for (size_t bytes = smallest; bytes <= largest; bytes *= 4)
      compare(sides, bytes, blocks, place);
    ::MPI_Barrier(MPI_COMM_WORLD);
  }
  ::MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace paceline::bench

int main(int argc, char** argv) { return paceline::bench::run(argc, argv); }
