// Side: one way to do an all-reduce (sum of f32), as the comparison sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace paceline::bench {

// The same pages for every side, touched before anything is measured.
struct HeapBuffers {
  float* input = nullptr;
  float* output = nullptr;
  size_t most_elements = 0;
};

class Side {
 public:
  virtual ~Side() = default;
  virtual std::string name() const = 0;
  virtual bool is_offered(size_t bytes) const = 0;  // false: left out at this size
  virtual void all_reduce(size_t elements) = 0;
  // Where the sum is, or nullptr if it makes none.
  virtual const float* result() const = 0;
};
using Sides = std::vector<std::unique_ptr<Side>>;

struct Place {
  int rank = 0;
  int ranks = 1;
};

// Each uses MPI to find its peers, and for nothing else.
Sides paceline_sides(const Place& place, const HeapBuffers& buffers);
Sides gloo_sides(const Place& place, const HeapBuffers& buffers);
Sides open_mpi_sides(const HeapBuffers& buffers);

}  // namespace paceline::bench
