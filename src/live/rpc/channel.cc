#include "live/rpc/channel.h"

#include <absl/synchronization/mutex.h>
#include <grpc/grpc.h>

#include <string_view>

#include "base/str.h"

namespace paceline::rpc {
namespace {

constexpr const char* kTokenKey = "paceline-token";

constexpr int kFirstPauseMs = 20;
constexpr int kLongestPauseMs = 500;
// One attempt to connect; to a host that answers nothing.
constexpr int kConnectLimitMs = 1000;

// Between hosts a connection may die without a word; on one machine the kernel always tells.
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveLimitMs = 5'000;
// Messages are small, and each arrives in one piece: with windows that hold many of them there is
// nothing to measure, and measuring costs a ping and its answer, with the threads that they wake,
// for nearly every message.
constexpr int kMeasuresBandwidth = 0;
constexpr int kStreamWindowBytes = 1 << 20;

// Before gRPC is used; more than once does no harm.
void prepare_grpc() {
  // Distributions may build Abseil without NDEBUG, as Debian does. Each of gRPC's locks then enters
  // a graph of all locks, behind one lock of the whole process, to find cycles.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // With the last channel or server gRPC would end its threads, and wait up to 10 s for one that
  // polls for a write which a peer has not taken. So they stay, and end with the process.
  static const bool is_kept = (grpc_init(), true);
  static_cast<void>(is_kept);
}

}  // namespace

bool is_local(const std::string& address) { return address.starts_with("unix"); }

std::shared_ptr<grpc::Channel> open_channel(const std::string& address) {
  prepare_grpc();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstPauseMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestPauseMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectLimitMs);
  // A channel is one connection of its own, not shared with others of the process.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, kMeasuresBandwidth);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
  if (!is_local(address)) {
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveLimitMs);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  }
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

void add_token(grpc::ClientContext& context, const std::string& token) {
  if (!token.empty()) context.AddMetadata(kTokenKey, token);
}

void limit_server(grpc::ServerBuilder& builder, const std::string& address) {
  prepare_grpc();
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, kMeasuresBandwidth);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
  // Two controllers must not share one port.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  if (is_local(address)) return;
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveLimitMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kKeepaliveMs / 2);
}

bool has_token(const grpc::ServerContextBase& context, const std::string& token) {
  if (token.empty()) return true;
  const auto found = context.client_metadata().find(kTokenKey);
  if (found == context.client_metadata().end()) return false;
  const std::string_view shown(found->second.data(), found->second.size());
  if (shown.size() != token.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < token.size(); ++i)
    difference |= static_cast<unsigned char>(shown[i]) ^ static_cast<unsigned char>(token[i]);
  return difference == 0;
}

grpc::Status no_token() {
  return {grpc::StatusCode::UNAUTHENTICATED, "the token is missing or wrong"};
}
grpc::Status behind() { return {grpc::StatusCode::RESOURCE_EXHAUSTED, "the controller is behind"}; }

grpc::Status to_grpc(const Status& status) {
  if (status) return grpc::Status::OK;
  const auto code = [&status] {
    switch (status.error().code) {
      case ErrorCode::InvalidArgument:
      case ErrorCode::Corrupt:
        return grpc::StatusCode::INVALID_ARGUMENT;
      case ErrorCode::NotFound:
        return grpc::StatusCode::NOT_FOUND;
      case ErrorCode::AlreadyExists:
        return grpc::StatusCode::ALREADY_EXISTS;
      case ErrorCode::Refused:
        return grpc::StatusCode::FAILED_PRECONDITION;
      case ErrorCode::Unavailable:
        return grpc::StatusCode::UNAVAILABLE;
      case ErrorCode::Timeout:
        return grpc::StatusCode::DEADLINE_EXCEEDED;
      case ErrorCode::Exhausted:
        return grpc::StatusCode::RESOURCE_EXHAUSTED;
      case ErrorCode::Io:
        break;
    }
    return grpc::StatusCode::INTERNAL;
  }();
  return {code, status.error().message};
}

Status from_grpc(const grpc::Status& status) {
  if (status.ok()) return {};
  const ErrorCode code = [&status] {
    switch (status.error_code()) {
      case grpc::StatusCode::INVALID_ARGUMENT:
        return ErrorCode::InvalidArgument;
      case grpc::StatusCode::NOT_FOUND:
        return ErrorCode::NotFound;
      case grpc::StatusCode::ALREADY_EXISTS:
        return ErrorCode::AlreadyExists;
      case grpc::StatusCode::FAILED_PRECONDITION:
      case grpc::StatusCode::UNAUTHENTICATED:
        return ErrorCode::Refused;
      case grpc::StatusCode::UNAVAILABLE:
      case grpc::StatusCode::CANCELLED:
        return ErrorCode::Unavailable;
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        return ErrorCode::Timeout;
      case grpc::StatusCode::RESOURCE_EXHAUSTED:
        return ErrorCode::Exhausted;
      default:
        return ErrorCode::Io;
    }
  }();
  return Failure{code, "controller: " + status.error_message()};
}

}  // namespace paceline::rpc
