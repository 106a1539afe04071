#include "live/fault/ring_probe.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "base/str.h"
#include "live/os/descriptor.h"

namespace paceline::fault {
namespace {

Error not_yet(const std::string& what) { return {ErrorCode::Unavailable, what}; }

// The number of the ring's descriptor in the process: it is told by its environment.
std::optional<int> ring_descriptor_of(pid_t process) {
  std::ifstream file(str("/proc/", process, "/environ"), std::ios::binary);
  const std::string block{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::string name = str('\0', wire::kRingEnvironment, "=");
  const std::string searched = '\0' + block;
  const size_t at = searched.find(name);
  if (at == std::string::npos) return std::nullopt;
  int number = -1;
  const char* begin = searched.data() + at + name.size();
  const auto [end, code] = std::from_chars(begin, searched.data() + searched.size(), number);
  if (code != std::errc() || number < 0) return std::nullopt;
  return number;
}

}  // namespace

Result<RingProbe> RingProbe::open(pid_t process) {
  const std::optional<int> number = ring_descriptor_of(process);
  if (!number) return not_yet(str("process ", process, " has no ring"));
  const std::string path = str("/proc/", process, "/fd/", *number);
  char target[64] = {};
  if (::readlink(path.c_str(), target, sizeof(target) - 1) < 0 ||
      !std::string_view(target).starts_with("/memfd:"))
    return not_yet(str(path, " is no memfd"));
  const os::Descriptor ring(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat file {};
  if (!ring.is_open() || ::fstat(ring.get(), &file) != 0 ||
      file.st_size < static_cast<off_t>(sizeof(wire::RankRing)))
    return not_yet(str(path, " is not the size of a ring"));
  void* memory = ::mmap(nullptr, sizeof(wire::RankRing), PROT_READ, MAP_SHARED, ring.get(), 0);
  if (memory == MAP_FAILED) return Failure{ErrorCode::Io, str("cannot map ", path)};
  RingProbe probe(static_cast<const wire::RankRing*>(memory));
  if (probe.ring_->magic.load(std::memory_order_acquire) != wire::kRingMagic ||
      probe.ring_->version != wire::kRingVersion)
    return not_yet(str(path, " is no ring that we know"));
  return probe;
}

RingProbe::~RingProbe() {
  if (ring_ != nullptr) ::munmap(const_cast<wire::RankRing*>(ring_), sizeof(wire::RankRing));
}

RingProbe::RingProbe(RingProbe&& other) noexcept : ring_(std::exchange(other.ring_, nullptr)) {}

RingProbe& RingProbe::operator=(RingProbe&& other) noexcept {
  std::swap(ring_, other.ring_);
  return *this;
}

RankGlance RingProbe::glance() const {
  // Each field is a fact of its own: nothing here needs them to be of the same moment.
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const wire::RankNow& now = ring_->now;
  return {.step = now.step.load(kRelaxed),
          .phase = static_cast<RankPhase>(now.phase.load(kRelaxed)),
          .micro_batch = now.micro_batch.load(kRelaxed),
          .is_reducing = now.reducing.load(kRelaxed) != 0,
          .has_voted = now.has_voted.load(kRelaxed) != 0,
          .main_thread = static_cast<pid_t>(now.main_thread.load(kRelaxed))};
}

}  // namespace paceline::fault
