#include "live/worker/agent_link.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace paceline::worker {

AgentLink::AgentLink(Poller& poller, os::Descriptor socket)
    : poller_(poller),
      socket_(std::move(socket)),
      key_(poller.add(socket_.get(), EPOLLIN)),
      buffer_(wire::kMaxRecordBytes) {
  // It was inherited: programs that this one starts must not have it.
  ::fcntl(socket_.get(), F_SETFD, FD_CLOEXEC);
}

AgentLink::~AgentLink() {
  if (!is_gone_) poller_.remove(socket_.get());
}

void AgentLink::send(const wire::RankRecord& record) {
  if (is_gone_) return;
  queue_.push_back(wire::encode(record));
  flush();
  if (queue_.size() > kMaxQueuedRecords) lose();
}

void AgentLink::flush() {
  while (!is_gone_ && !queue_.empty()) {
    const std::vector<std::byte>& bytes = queue_.front();
    if (::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) {
        watch(true);
      } else {
        lose();
      }
      return;
    }
    queue_.pop_front();
  }
  if (!is_gone_) watch(false);
}

std::vector<wire::AgentRecord> AgentLink::receive() {
  std::vector<wire::AgentRecord> records;
  while (!is_gone_) {
    const ssize_t size = ::recv(socket_.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (size <= 0) {  // no record is empty: 0 is the end
      lose();
      break;
    }
    auto record = wire::decode_agent_record(std::span(buffer_).first(static_cast<size_t>(size)));
    if (record) records.push_back(std::move(*record));
  }
  return records;
}

void AgentLink::lose() {
  if (std::exchange(is_gone_, true)) return;
  poller_.remove(socket_.get());
  queue_.clear();
}

void AgentLink::watch(bool for_output) {
  if (for_output == is_watching_output_) return;
  is_watching_output_ = for_output;
  poller_.change(key_, socket_.get(), EPOLLIN | (for_output ? uint32_t{EPOLLOUT} : 0u));
}

}  // namespace paceline::worker
