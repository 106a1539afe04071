// What both ends of a connection must agree on: limits, keepalive, the token, and how our errors
// and gRPC's translate. Includes gRPC, so only for .cc files of this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "live/rpc/endpoint.h"

namespace paceline::rpc {

inline constexpr int kMaxMessageBytes = 16 << 20;

// What may wait for a peer that does not read. Beyond either, its stream is given up.
inline constexpr size_t kMaxQueuedMessages = 100'000;
inline constexpr size_t kMaxQueuedBytes = 64u << 20;
// Messages of one stream that the loop has not yet seen; beyond, the stream is not read.
inline constexpr int kMaxUnhandled = 32;

bool is_local(const std::string& address);

// In the metadata that begin an agent's stream: it was let in. Those of a refused call are empty.
inline constexpr const char* kWelcomeKey = "paceline-welcome";

std::shared_ptr<grpc::Channel> open_channel(const std::string& address);
void add_token(grpc::ClientContext& context, const std::string& token);

void limit_server(grpc::ServerBuilder& builder, const std::string& address);
// Takes as long for a wrong token as for the right one.
bool has_token(const grpc::ServerContextBase& context, const std::string& token);
// Why a server refuses.
grpc::Status no_token();
grpc::Status behind();

grpc::Status to_grpc(const Status& status);
Status from_grpc(const grpc::Status& status);

}  // namespace paceline::rpc
