#include "live/worker/testing/cluster.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/check.h"
#include "base/str.h"
#include "live/os/clock.h"
#include "live/os/death_bell.h"

namespace paceline::worker::testing {
namespace {

constexpr Duration kRunLimit = Duration::seconds(30);

// The largest record must fit, as in live/agent.
void widen_buffer(int socket) {
  const int bytes = 2 * static_cast<int>(wire::kMaxRecordBytes);
  if (::setsockopt(socket, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0)
    ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

// In the child: be the rank, then end.
[[noreturn]] void be_rank(SessionOptions options, const TrainerOptions& trainer) {
  Result<std::unique_ptr<Job>> job = Job::open(std::move(options));
  if (!job) {
    std::fprintf(stderr, "rank: %s\n", job.error().message.c_str());
    ::_exit(10);
  }
  const TrainerResult result = train(**job, trainer);
  if (result.status < 0) std::fprintf(stderr, "rank: %s\n", (*job)->last_error());
  job->reset();
  ::_exit(result.status < 0 ? 11 : 0);
}

}  // namespace

std::vector<MemberIndex> EvenDivider::regular(const std::vector<Member>& members,
                                              uint32_t micro_batches) const {
  std::vector<MemberIndex> owner(micro_batches);
  for (uint32_t m = 0; m < micro_batches; ++m)
    owner[m] = static_cast<MemberIndex>(m % members.size());
  return owner;
}

std::vector<MemberIndex> EvenDivider::lost(const std::vector<Member>&,
                                           const std::vector<bool>& is_held,
                                           const std::vector<uint32_t>& held_counts) const {
  std::vector<uint32_t> load = held_counts;
  std::vector<MemberIndex> owner(is_held.size(), kNoMember);
  for (size_t m = 0; m < is_held.size(); ++m) {
    if (is_held[m]) continue;
    const auto least = std::min_element(load.begin(), load.end()) - load.begin();
    owner[m] = static_cast<MemberIndex>(least);
    ++load[static_cast<size_t>(least)];
  }
  return owner;
}

Cluster::Cluster(const Options& options)
    : options_(options), membership_(options.micro_batches, divider_), ranks_(options.ranks) {
  for (uint32_t slot = 0; slot < options.ranks; ++slot) {
    ranks_[slot].id = {SlotId(slot), Incarnation(1)};
    spawn(slot);
  }
}

Cluster::~Cluster() {
  for (Rank& rank : ranks_) {
    if (rank.process < 0) continue;
    ::kill(rank.process, SIGKILL);
    ::waitpid(rank.process, nullptr, 0);
  }
}

void Cluster::spawn(uint32_t slot) {
  Rank& rank = ranks_[slot];
  Result<os::SharedMemory> memory = os::SharedMemory::make("test-ring", sizeof(wire::RankRing));
  CHECK(memory.has_value());
  rank.ring.emplace(std::move(*memory));
  auto* ring = new (rank.ring->data()) wire::RankRing;
  ring->magic = wire::kRingMagic;
  ring->version = wire::kRingVersion;
  os::init_death_bell({ring->bell.mutex, ring->bell.is_armed});
  int pair[2];
  CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
  for (const int end : pair) widen_buffer(end);
  const pid_t process = ::fork();
  CHECK(process >= 0);
  if (process == 0) {
    for (Rank& other : ranks_) other.socket.reset();
    ::close(pair[0]);
    SessionOptions session{.self = rank.id,
                           .token = kToken,
                           .address = 0,
                           .micro_batches = options_.micro_batches,
                           .seed = options_.trainer.seed,
                           .reduce = options_.reduce,
                           .is_joiner = rank.is_joiner,
                           .processor = {str("CPU of rank ", slot), slot + 1},
                           .agent_socket = os::Descriptor(pair[1]),
                           .ring = os::Descriptor(::dup(rank.ring->descriptor()))};
    be_rank(std::move(session), options_.trainer);
  }
  ::close(pair[1]);
  rank.process = process;
  rank.socket = os::Descriptor(pair[0]);
}

bool Cluster::run() {
  const Instant deadline = os::now() + kRunLimit;
  while (!is_done()) {
    if (os::now() > deadline) return false;
    std::vector<pollfd> polled;
    for (const Rank& rank : ranks_)
      polled.push_back(
          {.fd = rank.has_ended ? -1 : rank.socket.get(), .events = POLLIN, .revents = 0});
    ::poll(polled.data(), polled.size(), 1);
    for (size_t i = 0; i < ranks_.size(); ++i)
      if (polled[i].revents != 0) serve(ranks_[i]);
    if (on_turn) on_turn();
    std::erase_if(on_moment, [](auto& moment) { return moment(); });
  }
  for (Rank& rank : ranks_) {
    if (rank.has_ended) continue;
    tell(rank, wire::ReleaseOrder{});
    int status = 0;
    ::waitpid(rank.process, &status, 0);
    rank.exit_status = status;
    rank.process = -1;
  }
  return true;
}

bool Cluster::is_done() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.done || rank.has_ended; });
}

void Cluster::serve(Rank& rank) {
  std::vector<std::byte> buffer(wire::kMaxRecordBytes);
  const ssize_t size = ::recv(rank.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    end(rank);
    return;
  }
  const auto record = wire::decode_rank_record(std::span(buffer).first(static_cast<size_t>(size)));
  CHECK(record.has_value());
  take(rank, *record);
}

void Cluster::take(Rank& rank, const wire::RankRecord& record) {
  if (const auto* hello = std::get_if<wire::Hello>(&record)) {
    rank.hello = *hello;
    if (rank.is_joiner) {
      order_heal(rank);
      return;
    }
    if (!std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.hello; })) return;
    std::vector<Member> members;
    for (const Rank& each : ranks_) members.push_back({each.id, HostId(0), each.hello->endpoint});
    membership_.start(members);
  } else if (const auto* report = std::get_if<PrepareReport>(&record)) {
    membership_.report(rank.id, *report);
  } else if (const auto* entered = std::get_if<wire::Entered>(&record)) {
    rank.epoch = entered->epoch;
    membership_.entered(rank.id, entered->epoch);
  } else if (const auto* done = std::get_if<wire::Done>(&record)) {
    rank.done = *done;
    if (done->has_left) membership_.left(rank.id);
  } else if (const auto* heal = std::get_if<wire::HealNotice>(&record)) {
    rank.heals.push_back(*heal);
    if (heal->what == HealProgress::What::Level) announce_joiner(rank);
    if (heal->what == HealProgress::What::Failed) {
      if (membership_.may_be_in_force(rank.id)) membership_.reform({});
      if (rank.heal_attempt < 5) order_heal(rank);
    }
  } else if (const auto* digest = std::get_if<wire::DigestNotice>(&record)) {
    rank.compared.push_back(*digest);
  } else if (const auto* notice = std::get_if<wire::PeerNotice>(&record)) {
    rank.notices.push_back(*notice);
  }
  carry_out();
}

void Cluster::start_joiner(uint32_t slot) {
  Rank& rank = ranks_[slot];
  CHECK(rank.has_ended);
  const RankId id = rank.id;
  rank = Rank{};
  rank.id = {id.slot, id.incarnation.next()};
  rank.is_joiner = true;
  spawn(slot);
}

void Cluster::order_heal(Rank& rank) {
  wire::HealOrder order{.attempt = ++rank.heal_attempt, .donors = {}};
  for (const Member& member : membership_.base().members)
    if (order.donors.size() < 2) order.donors.push_back({member.rank, HostId(0), member.endpoint});
  tell(rank, order);
}

void Cluster::announce_joiner(const Rank& rank) {
  std::vector<Member> members = membership_.base().members;
  members.push_back({rank.id, HostId(0), rank.hello->endpoint});
  const std::vector<MemberIndex> owner = divider_.regular(members, options_.micro_batches);
  membership_.announce({.members = members, .owner = owner});
}

void Cluster::carry_out() {
  for (const control::MembershipEffect& effect : membership_.take_effects()) {
    const auto* send = std::get_if<control::SendControl>(&effect);
    if (send == nullptr) continue;
    const wire::AgentRecord record =
        std::visit([](const auto& m) { return wire::AgentRecord(m); }, send->message);
    tell(ranks_[send->to.slot.value()], record);
  }
}

void Cluster::tell(Rank& rank, const wire::AgentRecord& record) {
  if (rank.has_ended) return;
  const std::vector<std::byte> bytes = wire::encode(record);
  ::send(rank.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

void Cluster::end(Rank& rank) {
  int status = 0;
  ::waitpid(rank.process, &status, 0);
  rank.exit_status = status;
  rank.process = -1;
  rank.has_ended = true;
  membership_.lost(rank.id, control::Loss::Ended);
  carry_out();
}

void Cluster::kill(uint32_t slot, int signal) {
  if (ranks_[slot].process > 0) ::kill(ranks_[slot].process, signal);
}

void Cluster::hang_up(uint32_t slot) {
  Rank& rank = ranks_[slot];
  if (rank.has_ended) return;
  rank.socket.reset();
  end(rank);
}

std::set<uint64_t> Cluster::digests() const {
  std::set<uint64_t> digests;
  for (const Rank& rank : ranks_)
    if (rank.done) digests.insert(rank.done->state_digest);
  return digests;
}

}  // namespace paceline::worker::testing
