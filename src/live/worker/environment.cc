#include "live/worker/environment.h"

#include <arpa/inet.h>
#include <fcntl.h>

#include <charconv>
#include <cstdlib>
#include <utility>

#include "core/model/job.h"
#include "live/checkpoint/checkpoint_directory.h"
#include "live/wire/rank_ring.h"

namespace paceline::worker {
namespace {

template <class T>
Result<T> parse_number(const char* name, std::string_view text, int base = 10) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size())
    return Failure{ErrorCode::InvalidArgument, str(name, "='", text, "' is no number")};
  return value;
}

Result<os::Descriptor> parse_descriptor(const Lookup& lookup, const char* name) {
  TRY_ASSIGN(const int value, parse_number<int>(name, lookup(name).value_or("")));
  // Inherited, and not to be handed on.
  if (::fcntl(value, F_SETFD, FD_CLOEXEC) != 0)
    return Failure{ErrorCode::InvalidArgument, str(name, "=", value, " is no open descriptor")};
  return os::Descriptor(value);
}

Result<RankId> parse_rank(std::string_view text) {
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos)
    return Failure{ErrorCode::InvalidArgument,
                   str(wire::kRankEnvironment, "='", text, "' is not slot.incarnation")};
  TRY_ASSIGN(const auto slot, parse_number<uint32_t>(wire::kRankEnvironment, text.substr(0, dot)));
  TRY_ASSIGN(const auto incarnation,
             parse_number<uint32_t>(wire::kRankEnvironment, text.substr(dot + 1)));
  return RankId{SlotId(slot), Incarnation(incarnation)};
}

Result<uint32_t> parse_address(const std::string& text) {
  in_addr address{};
  if (::inet_pton(AF_INET, text.c_str(), &address) != 1)
    return Failure{ErrorCode::InvalidArgument,
                   str(wire::kAddressEnvironment, "='", text, "' is no IPv4 address")};
  return ntohl(address.s_addr);
}

// What OpenMP reads, and with it most of BLAS: "4", or "4,2" for what is nested.
uint32_t threads_from(const Lookup& lookup) {
  const std::string text = lookup("OMP_NUM_THREADS").value_or("");
  const auto threads =
      parse_number<uint32_t>("OMP_NUM_THREADS", std::string_view(text).substr(0, text.find(',')));
  return threads ? *threads : 0;
}

Status take_agent(const Lookup& lookup, SessionOptions& options) {
  TRY_ASSIGN(options.self, parse_rank(lookup(wire::kRankEnvironment).value_or("")));
  TRY_ASSIGN(options.token,
             parse_number<uint64_t>(wire::kTokenEnvironment,
                                    lookup(wire::kTokenEnvironment).value_or(""), 16));
  if (const auto address = lookup(wire::kAddressEnvironment)) {
    TRY_ASSIGN(options.address, parse_address(*address));
  }
  options.is_joiner = lookup(wire::kJoinerEnvironment).value_or("") == "1";
  options.processor = this_processor(threads_from(lookup));
  TRY_ASSIGN(options.ring, parse_descriptor(lookup, wire::kRingEnvironment));
  TRY_ASSIGN(options.agent_socket, parse_descriptor(lookup, wire::kSocketEnvironment));
  return {};
}

// Without a file that the launcher has chosen, PACELINE_RESUME=1 means the newest. A joiner takes
// its state from members.
Result<CheckpointOptions> checkpoint_options_from(const Lookup& lookup, bool is_joiner) {
  CheckpointOptions options;
  options.directory = lookup(checkpoint::kDirectoryVariable).value_or("");
  const std::string every = lookup(checkpoint::kEveryVariable).value_or("auto");
  if (every != "auto") {
    TRY_ASSIGN(options.every, parse_number<uint64_t>(checkpoint::kEveryVariable, every));
  }
  if (const auto generation = lookup(checkpoint::kGenerationVariable)) {
    TRY_ASSIGN(options.generation,
               parse_number<uint64_t>(checkpoint::kGenerationVariable, *generation));
  }
  if (is_joiner) return options;
  options.resume_from = lookup(kResumeFromVariable).value_or("");
  if (!options.resume_from.empty() || options.directory.empty() ||
      lookup(checkpoint::kResumeVariable).value_or("") != "1")
    return options;
  const std::vector<checkpoint::Entry> entries = checkpoint::list(options.directory);
  if (entries.empty()) return options;
  options.resume_from = entries.front().path;
  options.generation = entries.front().manifest.order.generation + 1;
  return options;
}

}  // namespace

Result<SessionOptions> options_from(const Lookup& lookup) {
  SessionOptions options;
  if (const auto text = lookup(wire::kMicroBatchesEnvironment)) {
    TRY_ASSIGN(options.micro_batches,
               parse_number<uint32_t>(wire::kMicroBatchesEnvironment, *text));
    if (options.micro_batches < 1 || options.micro_batches > kMaxMicroBatches)
      return Failure{ErrorCode::InvalidArgument, str(wire::kMicroBatchesEnvironment, "=", *text,
                                                     " is not in 1..", kMaxMicroBatches)};
  } else {
    options.micro_batches = 0;
  }
  if (const auto text = lookup(wire::kSeedEnvironment)) {
    TRY_ASSIGN(options.seed, parse_number<uint64_t>(wire::kSeedEnvironment, *text));
    options.is_seed_set = true;
  }
  const std::string reduce = lookup(wire::kReduceEnvironment).value_or("exact");
  if (reduce != "exact" && reduce != "fast")
    return Failure{ErrorCode::InvalidArgument,
                   str(wire::kReduceEnvironment, "='", reduce, "' is neither exact nor fast")};
  options.reduce = reduce == "fast" ? ReduceMode::Fast : ReduceMode::Exact;
  if (lookup(wire::kSocketEnvironment)) TRY(take_agent(lookup, options));
  TRY_ASSIGN(options.checkpoint, checkpoint_options_from(lookup, options.is_joiner));
  return options;
}

std::optional<std::string> process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace paceline::worker
