#include "unaware/checkpoint.h"

#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <memory>
#include <stdexcept>

namespace unaware {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

}  // namespace

std::optional<Checkpoint> load_checkpoint(const std::string& path) {
  const File file(std::fopen(path.c_str(), "re"));
  if (file == nullptr) return std::nullopt;
  Checkpoint checkpoint;
  if (std::fscanf(file.get(), "steps_done %" SCNu64 " state %" SCNx64, &checkpoint.steps_done,
                  &checkpoint.state) != 2)
    throw std::runtime_error(path + " is not a checkpoint");
  return checkpoint;
}

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  const std::string beside = path + ".new";
  {
    const File file(std::fopen(beside.c_str(), "we"));
    const bool is_written =
        file != nullptr &&
        std::fprintf(file.get(), "steps_done %" PRIu64 " state %016" PRIx64 "\n",
                     checkpoint.steps_done, checkpoint.state) > 0 &&
        std::fflush(file.get()) == 0 && fsync(fileno(file.get())) == 0;
    if (!is_written) throw std::runtime_error("cannot write " + beside);
  }
  if (std::rename(beside.c_str(), path.c_str()) != 0)
    throw std::runtime_error("cannot replace " + path);
}

}  // namespace unaware
