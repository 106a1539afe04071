// A rank for the agent's tests, without the library: arms its bell, says hello, answers every
// Prepare, writes one sample and one metric, prints what it is told to. Ends when released.
//
//   agent_test_child member [on-prepare: report | crash | exit CODE | hang]
//   agent_test_child family        starts a grandchild that ignores everything, prints its pid
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "core/model/sample.h"
#include "live/wire/rank_record.h"
#include "live/wire/rank_ring.h"

namespace paceline {
namespace {

int descriptor_from(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? -1 : std::atoi(text);
}

wire::RankRing& map_ring() {
  const int descriptor = descriptor_from(wire::kRingEnvironment);
  void* memory =
      ::mmap(nullptr, sizeof(wire::RankRing), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) ::_exit(99);
  return *static_cast<wire::RankRing*>(memory);
}

void say(const wire::RankRecord& record) {
  const std::vector<std::byte> bytes = wire::encode(record);
  if (::send(descriptor_from(wire::kSocketEnvironment), bytes.data(), bytes.size(), MSG_NOSIGNAL) <
      0)
    ::_exit(98);
}

void write_measurements(wire::RankRing& ring) {
  ring.now.phase = static_cast<uint32_t>(RankPhase::Compute);
  ring.now.committed = 7;
  ring.now.step = 6;
  ring.now.micro_batch = 5;
  wire::SampleSlot& sample = ring.samples[0];
  sample.turn = 6;
  sample.compute = 1234;
  sample.sequence = 1;
  ring.samples_written = 1;
  wire::MetricSlot& metric = ring.metrics[0];
  metric.value = 0.5;
  std::strncpy(metric.name.data(), "loss", metric.name.size() - 1);
  metric.sequence = 1;
  ring.metrics_written = 1;
}

int be_family() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGTERM, SIG_IGN);
    for (;;) ::pause();
  }
  std::printf("grandchild %d\n", child);
  std::fflush(stdout);
  for (;;) ::pause();
}

int be_member(const std::string& on_prepare, int code) {
  wire::RankRing& ring = map_ring();
  std::thread([&ring] {
    ::pthread_mutex_lock(&ring.bell.mutex);
    ring.bell.is_armed = 1;
    for (;;) ::pause();
  }).detach();
  while (ring.bell.is_armed == 0) ::usleep(100);
  write_measurements(ring);
  say(wire::Hello{.endpoint = {.address = 0, .port = 4242}});
  std::vector<std::byte> buffer(wire::kMaxRecordBytes);
  for (;;) {
    const ssize_t length =
        ::recv(descriptor_from(wire::kSocketEnvironment), buffer.data(), buffer.size(), 0);
    if (length <= 0) return 97;
    const auto record =
        wire::decode_agent_record(std::span(buffer).first(static_cast<size_t>(length)));
    if (!record) return 96;
    if (std::holds_alternative<wire::ReleaseOrder>(*record)) return 0;
    const auto* prepare = std::get_if<Prepare>(&*record);
    if (prepare == nullptr) continue;
    if (on_prepare == "hang") continue;
    if (on_prepare == "exit") {
      std::printf("a last word");  // no newline
      std::exit(code);
    }
    if (on_prepare == "crash") {
      std::fprintf(stderr, "about to crash\n");
      std::abort();
    }
    say(PrepareReport{
        .prepare = prepare->number, .epoch = {}, .committed = Turn(7), .held = {MicroBatch(5)}});
  }
}

}  // namespace
}  // namespace paceline

int main(int argument_count, char** arguments) {
  const std::string mode = argument_count > 1 ? arguments[1] : "";
  if (mode == "family") return paceline::be_family();
  const int code = argument_count > 3 ? std::atoi(arguments[3]) : 0;
  return paceline::be_member(argument_count > 2 ? arguments[2] : "report", code);
}
