// MPI_Allreduce with Open MPI's own choice of algorithm and transport.
#include <mpi.h>

#include "fabric/side.h"

namespace paceline::bench {
namespace {

class OpenMpi final : public Side {
 public:
  explicit OpenMpi(const HeapBuffers& buffers) : buffers_(buffers) {}
  std::string name() const override { return "open-mpi"; }
  bool is_offered(size_t) const override { return true; }
  void all_reduce(size_t elements) override {
    ::MPI_Allreduce(buffers_.input, buffers_.output, static_cast<int>(elements), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
  }
  const float* result() const override { return buffers_.output; }

 private:
  HeapBuffers buffers_;
};

}  // namespace

Sides open_mpi_sides(const HeapBuffers& buffers) {
  Sides sides;
  sides.push_back(std::make_unique<OpenMpi>(buffers));
  return sides;
}

}  // namespace paceline::bench
