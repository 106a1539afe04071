#include "unaware/rendezvous.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <stdexcept>

namespace unaware {
namespace {

constexpr int kPeerTimeoutSeconds = 60;
constexpr int kConnectAttempts = 600;  // one in 100 ms

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) throw std::runtime_error(std::string(name) + " is not set; use torchrun");
  return text;
}

uint32_t number(const char* name) {
  return static_cast<uint32_t>(std::strtoul(variable(name).c_str(), nullptr, 10));
}

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

void configure(int socket) {
  const timeval timeout{.tv_sec = kPeerTimeoutSeconds, .tv_usec = 0};
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void send_number(int socket, uint64_t value) {
  if (send(socket, &value, sizeof(value), MSG_NOSIGNAL) != ssize_t{sizeof(value)})
    fail("a peer is lost");
}

uint64_t receive_number(int socket) {
  uint64_t value = 0;
  const ssize_t size = recv(socket, &value, sizeof(value), MSG_WAITALL);
  if (size == 0) throw std::runtime_error("a peer is lost: it closed its connection");
  if (size != ssize_t{sizeof(value)}) fail("a peer is lost");
  return value;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const Environment& environment) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(environment.master_address.c_str(), environment.master_port.c_str(),
                                &hints, &found);
  if (error != 0) throw std::runtime_error("MASTER_ADDR: " + std::string(gai_strerror(error)));
  return {found, &freeaddrinfo};
}

}  // namespace

Environment read_environment() {
  return {.rank = number("RANK"),
          .world_size = number("WORLD_SIZE"),
          .local_rank = number("LOCAL_RANK"),
          .restart_count = number("TORCHELASTIC_RESTART_COUNT"),
          .master_address = variable("MASTER_ADDR"),
          .master_port = variable("MASTER_PORT")};
}

Rendezvous::Rendezvous(const Environment& environment) : is_master_(environment.rank == 0) {
  if (environment.world_size == 1) return;
  if (is_master_)
    accept_all(environment);
  else
    connect_to_master(environment);
}

Rendezvous::~Rendezvous() {
  for (const int peer : peers_) close(peer);
}

void Rendezvous::accept_all(const Environment& environment) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) fail("socket");
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port =
      htons(static_cast<uint16_t>(std::strtoul(environment.master_port.c_str(), nullptr, 10)));
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener, 1024) != 0)
    fail("MASTER_PORT " + environment.master_port);
  configure(listener);  // accept ends at the same limit
  while (peers_.size() + 1 < environment.world_size) {
    const int peer = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (peer < 0) fail("not all ranks have come");
    configure(peer);
    peers_.push_back(peer);
  }
  close(listener);
}

void Rendezvous::connect_to_master(const Environment& environment) {
  const Addresses addresses = resolve(environment);
  for (int attempt = 0; attempt < kConnectAttempts; ++attempt) {
    const int peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (peer < 0) fail("socket");
    configure(peer);
    if (connect(peer, addresses->ai_addr, addresses->ai_addrlen) == 0) {
      peers_.push_back(peer);
      return;
    }
    close(peer);
    poll(nullptr, 0, 100);  // rank 0 may not listen yet
  }
  fail("rank 0 is not at " + environment.master_address + ":" + environment.master_port);
}

uint64_t Rendezvous::all_reduce(uint64_t value) {
  if (is_master_) {
    for (const int peer : peers_) value += receive_number(peer);
    for (const int peer : peers_) send_number(peer, value);
    return value;
  }
  send_number(peers_[0], value);
  return receive_number(peers_[0]);
}

}  // namespace unaware
