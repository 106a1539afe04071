#include "live/rpc/endpoint.h"

#include <cstdint>
#include <cstdlib>
#include <random>

#include "base/str.h"

namespace paceline::rpc {

RpcAddress RpcAddress::with_token_from_environment(std::string address) {
  const char* const token = std::getenv(kTokenVariable);
  return {.address = std::move(address), .token = token == nullptr ? "" : token};
}

std::string random_local_address() {
  std::random_device device;
  const uint64_t number = (static_cast<uint64_t>(device()) << 32) | device();
  return str("unix-abstract:paceline-", std::hex, number);
}

}  // namespace paceline::rpc
