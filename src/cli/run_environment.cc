#include "cli/run_environment.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/str.h"
#include "live/os/descriptor.h"
#include "live/wire/rank_ring.h"

namespace paceline::cli {
namespace {

// Free when asked for; whoever binds it later finds out whether it still is.
Result<uint16_t> free_port(const std::string& address) {
  const os::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  socklen_t size = sizeof name;
  name.sin_family = AF_INET;
  if (::inet_pton(AF_INET, address.c_str(), &name.sin_addr) != 1 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), size) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0)
    return Failure{ErrorCode::Io, str("no free port on ", address, ": ", std::strerror(errno))};
  return ntohs(name.sin_port);
}

}  // namespace

std::string local_address(uint32_t host) { return str("127.0.1.", host + 1); }

Result<std::vector<std::pair<std::string, std::string>>> environment_of_ranks(
    const RunOptions& options) {
  const uint32_t micro_batches =
      options.micro_batches == 0 ? options.ranks() : options.micro_batches;
  TRY_ASSIGN(const uint16_t port, free_port(local_address(0)));
  std::vector<std::pair<std::string, std::string>> environment{
      {wire::kMicroBatchesEnvironment, str(micro_batches)},
      {wire::kReduceEnvironment, options.reduce},
      {"MASTER_ADDR", local_address(0)},
      {"MASTER_PORT", str(port)}};
  if (options.seed) environment.emplace_back(wire::kSeedEnvironment, str(*options.seed));
  return environment;
}

}  // namespace paceline::cli
