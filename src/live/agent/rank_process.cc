#include "live/agent/rank_process.h"

#include <cstdio>
#include <utility>

#include "base/str.h"
#include "live/os/proc_stat.h"

namespace paceline::agent {
namespace {

os::SpawnError to_spawn_error(const Error& error) { return {error.message, false}; }

std::optional<RankLog> open_log(const HostSettings& settings, RankId rank) {
  if (settings.log_directory.empty()) return std::nullopt;
  Result<RankLog> log = RankLog::open(settings.log_directory, rank);
  if (log) return std::move(*log);
  // A rank without its log is better than no rank.
  std::fprintf(stderr, "pace agent: %s\n", log.error().message.c_str());
  return std::nullopt;
}

}  // namespace

std::variant<std::unique_ptr<RankProcess>, os::SpawnError> RankProcess::start(
    const Spawn& order, const HostSettings& settings, std::function<void()> on_bell) {
  const RankId rank = order.rank.rank;
  if (order.program.arguments.empty()) return os::SpawnError{"the program has no name", true};
  Result<RingReader> ring = RingReader::make(rank);
  if (!ring) return to_spawn_error(ring.error());
  Result<RankSocket::Pair> socket = RankSocket::make(rank);
  if (!socket) return to_spawn_error(socket.error());
  Result<RankOutput::Pair> output = RankOutput::make(false);
  if (!output) return to_spawn_error(output.error());
  Result<RankOutput::Pair> error_output = RankOutput::make(true);
  if (!error_output) return to_spawn_error(error_output.error());

  const RankPlace place{.rank = order.rank,
                        .local_world_size = order.local_world_size,
                        .address = settings.address,
                        .socket = socket->theirs.get(),
                        .ring = ring->descriptor()};
  std::variant<os::Process, os::SpawnError> process = os::Process::spawn(
      {.arguments = order.program.arguments,
       .environment = rank_environment(settings.environment, order.program, place),
       .working_directory = order.program.working_directory,
       .inherited = {place.socket, place.ring},
       .standard_output = output->theirs.get(),
       .standard_error = error_output->theirs.get(),
       .niceness = settings.niceness});
  if (auto* failure = std::get_if<os::SpawnError>(&process)) return std::move(*failure);
  Parts parts{.ring = std::move(*ring),
              .socket = std::move(socket->ours),
              .outputs = {std::move(output->ours), std::move(error_output->ours)},
              .log = open_log(settings, rank),
              .process = std::move(std::get<os::Process>(process))};
  return std::unique_ptr<RankProcess>(new RankProcess(std::move(parts), std::move(on_bell)));
}

RankProcess::RankProcess(Parts parts, std::function<void()> on_bell)
    : ring_(std::move(parts.ring)),
      waiter_(ring_.bell(), std::move(on_bell)),
      socket_(std::move(parts.socket)),
      outputs_(std::move(parts.outputs)),
      log_(std::move(parts.log)),
      process_(std::move(parts.process)) {}

RankView RankProcess::view() const {
  RankView view = ring_.view();
  if (process_.is_reaped()) return view;
  const os::ProcessStat stat = os::read_process_stat(process_.id());
  view.is_stopped = stat.is_stopped;
  view.is_traced = stat.is_traced;
  view.cpu_time = stat.cpu_time;
  return view;
}

}  // namespace paceline::agent
