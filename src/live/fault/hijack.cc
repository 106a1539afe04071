#include "live/fault/hijack.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/str.h"

namespace paceline::fault {

#if defined(__x86_64__)
namespace {

// No text of the victim that a thread may come to is changed: a system call instruction is looked
// for in what is mapped, and a jump to itself is put at the program's entry point.
constexpr std::string_view kSyscallInstruction{"\x0f\x05", 2};
constexpr long kJumpToSelf = 0xfeeb;     // eb fe, little-endian
constexpr uint64_t kRedZoneBytes = 128;  // below the stack pointer, still used by the function
constexpr size_t kMaxSearchedBytes = 64u << 20;

Error failed(const char* what) { return {ErrorCode::Io, str(what, ": ", std::strerror(errno))}; }

std::optional<uint64_t> find_in(pid_t process, uint64_t begin, uint64_t end,
                                std::string_view pattern) {
  if (end - begin > kMaxSearchedBytes) return std::nullopt;
  std::vector<char> bytes(end - begin);
  const iovec local{.iov_base = bytes.data(), .iov_len = bytes.size()};
  const iovec remote{.iov_base = reinterpret_cast<void*>(begin), .iov_len = bytes.size()};
  const ssize_t read = ::process_vm_readv(process, &local, 1, &remote, 1, 0);
  if (read <= 0) return std::nullopt;
  const size_t at = std::string_view(bytes.data(), static_cast<size_t>(read)).find(pattern);
  if (at == std::string_view::npos) return std::nullopt;
  return begin + at;
}

Result<uint64_t> find_instruction(pid_t process, std::string_view pattern) {
  std::ifstream maps(str("/proc/", process, "/maps"));
  std::string line;
  while (std::getline(maps, line)) {
    std::istringstream fields(line);
    uint64_t begin = 0, end = 0;
    char dash = 0;
    std::string access;
    fields >> std::hex >> begin >> dash >> end >> access;
    if (access.find('x') == std::string::npos || line.ends_with("[vsyscall]")) continue;
    if (const auto at = find_in(process, begin, end, pattern)) return *at;
  }
  return Failure{ErrorCode::NotFound, "the process has no such instruction"};
}

// A stopped thread, let go at the end of the scope.
class Attached {
 public:
  static Result<Attached> attach(pid_t thread) {
    if (::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) return failed("ptrace seize");
    Attached attached(thread);
    if (::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0)
      return failed("ptrace interrupt");
    TRY(attached.wait_for_stop());
    return attached;
  }
  ~Attached() {
    if (thread_ != 0) ::ptrace(PTRACE_DETACH, thread_, nullptr, nullptr);
  }
  Attached(Attached&& other) noexcept : thread_(std::exchange(other.thread_, 0)) {}
  Attached& operator=(Attached&&) = delete;

  Result<user_regs_struct> registers() const {
    user_regs_struct registers{};
    if (::ptrace(PTRACE_GETREGS, thread_, nullptr, &registers) != 0)
      return failed("ptrace getregs");
    return registers;
  }

  Status set_registers(user_regs_struct registers) const {
    registers.orig_rax = UINT64_MAX;  // or the kernel would restart what it was interrupted in
    if (::ptrace(PTRACE_SETREGS, thread_, nullptr, &registers) != 0)
      return failed("ptrace setregs");
    return {};
  }

  Status run_one_instruction() const {
    if (::ptrace(PTRACE_SINGLESTEP, thread_, nullptr, nullptr) != 0) return failed("ptrace step");
    return wait_for_stop();
  }

 private:
  explicit Attached(pid_t thread) : thread_(thread) {}

  Status wait_for_stop() const {
    int status = 0;
    if (::waitpid(thread_, &status, __WALL) != thread_) return failed("wait for the thread");
    if (!WIFSTOPPED(status)) return Failure{ErrorCode::Unavailable, "the thread has ended"};
    return {};
  }

  pid_t thread_;
};

// read_registers with the arguments of a system call, about to execute it.
user_regs_struct about_to_call(user_regs_struct registers, uint64_t syscall_at, long number,
                               std::array<uint64_t, 3> arguments) {
  registers.rip = syscall_at;
  registers.rax = static_cast<uint64_t>(number);
  registers.rdi = arguments[0];
  registers.rsi = arguments[1];
  registers.rdx = arguments[2];
  return registers;
}

}  // namespace

Status hijack_into_blocked_read(pid_t process, pid_t thread) {
  TRY_ASSIGN(const uint64_t syscall_at, find_instruction(process, kSyscallInstruction));
  TRY_ASSIGN(const Attached attached, Attached::attach(thread));
  TRY_ASSIGN(const user_regs_struct before, attached.registers());
  const uint64_t scratch = before.rsp - kRedZoneBytes - 64;
  TRY(attached.set_registers(about_to_call(before, syscall_at, SYS_pipe2, {scratch, 0, 0})));
  TRY(attached.run_one_instruction());
  std::array<int32_t, 2> ends{-1, -1};
  const iovec local{.iov_base = ends.data(), .iov_len = sizeof(ends)};
  const iovec remote{.iov_base = reinterpret_cast<void*>(scratch), .iov_len = sizeof(ends)};
  if (::process_vm_readv(process, &local, 1, &remote, 1, 0) != static_cast<ssize_t>(sizeof(ends)) ||
      ends[0] < 0)
    return failed("read the pipe's descriptors");
  // It blocks in this call when it is let go, and never comes back from it.
  return attached.set_registers(
      about_to_call(before, syscall_at, SYS_read, {static_cast<uint64_t>(ends[0]), scratch, 1}));
}

// The program's entry point: no thread comes there a second time, so its code may be overwritten.
Result<uint64_t> entry_point(pid_t process) {
  std::ifstream auxiliary(str("/proc/", process, "/auxv"), std::ios::binary);
  std::array<uint64_t, 2> entry{};
  while (auxiliary.read(reinterpret_cast<char*>(entry.data()), sizeof(entry)))
    if (entry[0] == AT_ENTRY) return entry[1];
  return Failure{ErrorCode::NotFound, str("process ", process, " shows no entry point")};
}

Status hijack_into_spin(pid_t process, pid_t thread) {
  TRY_ASSIGN(const uint64_t jump_at, entry_point(process));
  TRY_ASSIGN(const Attached attached, Attached::attach(thread));
  TRY_ASSIGN(user_regs_struct registers, attached.registers());
  errno = 0;
  const long code = ::ptrace(PTRACE_PEEKTEXT, thread, jump_at, nullptr);
  if (errno != 0) return failed("read the entry point");
  const long spin = (code & ~0xffffL) | kJumpToSelf;
  if (::ptrace(PTRACE_POKETEXT, thread, jump_at, spin) != 0) return failed("write the entry point");
  registers.rip = jump_at;
  return attached.set_registers(registers);
}

#else

Status hijack_into_blocked_read(pid_t, pid_t) {
  return Failure{ErrorCode::Refused, "hang: only on x86-64"};
}
Status hijack_into_spin(pid_t, pid_t) {
  return Failure{ErrorCode::Refused, "spin: only on x86-64"};
}

#endif

}  // namespace paceline::fault
