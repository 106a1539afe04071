// Where a controller listens, and the secret that its callers show.
#pragma once

#include <string>

#include "base/time.h"

namespace paceline::rpc {

// An address is anything that gRPC takes: "unix-abstract:name", "unix:/path", "10.0.0.1:4000".
struct RpcAddress {
  std::string address;
  // Compared on every call; empty: not asked for. Never printed, never in an error text.
  std::string token;

  // The token from the environment variable PACELINE_TOKEN.
  static RpcAddress with_token_from_environment(std::string address);
};

inline constexpr const char* kTokenVariable = "PACELINE_TOKEN";

// An address on this machine that leaves nothing to clean up and that nobody can guess.
std::string random_local_address();

}  // namespace paceline::rpc
