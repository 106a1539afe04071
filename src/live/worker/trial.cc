#include "live/worker/trial.h"

#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <thread>

#define XXH_INLINE_ALL  // no symbols that could meet those of the program's own copy
#include <xxhash.h>

namespace paceline::worker {
namespace {

constexpr size_t kMaxTypeBytes = 64;  // of a processor's name

// It comes from another host and ends in a line for people.
std::string printable(std::string text) {
  if (text.size() > kMaxTypeBytes) text.resize(kMaxTypeBytes);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

// The kernel names the model on x86 alone; elsewhere the architecture must do.
std::string processor_type() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line) && !line.empty();) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname machine{};
  return ::uname(&machine) == 0 ? machine.machine : Processor{}.type;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Processor& processor) {
  return out << processor.type << ", " << processor.threads
             << (processor.threads == 1 ? " thread" : " threads");
}

Processor this_processor(uint32_t threads) {
  return {printable(processor_type()),
          threads > 0 ? threads : std::max(std::thread::hardware_concurrency(), 1u)};
}

// The bucket is the seed: two buckets whose gradients are exchanged are not the same.
uint64_t gradient_digest(BucketId bucket, std::span<const std::byte> gradient) {
  return XXH3_64bits_withSeed(gradient.data(), gradient.size(), bucket.value());
}

FrameHeader trial_header(const Trial& trial) {
  const size_t size = std::min(trial.processor.type.size(), kMaxTypeBytes);
  return {.kind = FrameKind::HealTrial,
          .chunk = trial.micro_batch.value(),
          .hop = std::max(trial.processor.threads, 1u),
          .turn = trial.turn,
          .tag = trial.digest,
          .low = EpochNumber(static_cast<uint32_t>(size)),
          .payload_bytes = static_cast<uint32_t>((size + 3) / 4 * 4)};
}

std::vector<std::byte> trial_payload(const Trial& trial) {
  std::string type = trial.processor.type;
  type.resize(trial_header(trial).payload_bytes);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(type));
  return {bytes.begin(), bytes.end()};
}

std::optional<Trial> decode_trial(const FrameHeader& header, std::span<const std::byte> payload) {
  const size_t size = header.low.value();
  if (header.chunk >= kMaxMicroBatches || size > kMaxTypeBytes || size > payload.size())
    return std::nullopt;
  const std::string type(reinterpret_cast<const char*>(payload.data()), size);
  return Trial{header.turn, MicroBatch(header.chunk), header.tag, {printable(type), header.hop}};
}

}  // namespace paceline::worker
