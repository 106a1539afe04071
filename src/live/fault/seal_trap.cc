#include "live/fault/seal_trap.h"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>

namespace paceline::fault {
namespace {

// Of one poll: a thread that makes calls faster than this is looked at again later.
constexpr int kMaxStops = 64;
constexpr int kCallStop = SIGTRAP | 0x80;  // as PTRACE_O_TRACESYSGOOD marks it

bool is_group_stop(int signal) {
  return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

}  // namespace

std::optional<SealTrap> SealTrap::set(pid_t thread) {
  if (::ptrace(PTRACE_SEIZE, thread, nullptr, PTRACE_O_TRACESYSGOOD) != 0) return std::nullopt;
  SealTrap trap(thread);
  if (::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0) return std::nullopt;
  return trap;
}

SealTrap::~SealTrap() {
  if (thread_ == 0) return;
  int signal = 0;
  if (!is_held_) {
    int status = 0;
    if (::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) != 0) return;  // it has ended
    if (::waitpid(thread_, &status, __WALL) != thread_ || !WIFSTOPPED(status)) return;
    const bool is_own = status >> 16 == PTRACE_EVENT_STOP || WSTOPSIG(status) == kCallStop;
    if (!is_own) signal = WSTOPSIG(status);  // on its way to the thread: goes on
  }
  ::ptrace(PTRACE_DETACH, thread_, nullptr, signal);
}

SealTrap::Seen SealTrap::poll() {
  if (thread_ == 0) return Seen::Ended;
  if (is_held_) run_to_next_call(0);
  for (int i = 0; i < kMaxStops; ++i) {
    int status = 0;
    const pid_t stopped = ::waitpid(thread_, &status, __WALL | WNOHANG);
    if (stopped == 0) return Seen::Nothing;
    if (stopped < 0 || !WIFSTOPPED(status)) {
      thread_ = 0;
      return Seen::Ended;
    }
    if (take_stop(status)) return Seen::Sealed;
  }
  return Seen::Nothing;
}

bool SealTrap::take_stop(int status) {
  const int signal = WSTOPSIG(status);
  if (status >> 16 == PTRACE_EVENT_STOP) {
    if (is_group_stop(signal))
      ::ptrace(PTRACE_LISTEN, thread_, nullptr, nullptr);  // stays stopped, as it was told
    else
      run_to_next_call(0);
    return false;
  }
  if (signal != kCallStop) {
    run_to_next_call(signal);
    return false;
  }
  __ptrace_syscall_info call{};
  ::ptrace(PTRACE_GET_SYSCALL_INFO, thread_, sizeof call, &call);
  if (call.op == PTRACE_SYSCALL_INFO_ENTRY) {
    is_sealing_ = call.entry.nr == SYS_fcntl && call.entry.args[1] == F_ADD_SEALS;
  } else if (call.op == PTRACE_SYSCALL_INFO_EXIT && std::exchange(is_sealing_, false) &&
             call.exit.is_error == 0) {
    is_held_ = true;
    return true;
  }
  run_to_next_call(0);
  return false;
}

void SealTrap::run_to_next_call(int signal) {
  is_held_ = false;
  ::ptrace(PTRACE_SYSCALL, thread_, nullptr, signal);
}

}  // namespace paceline::fault
