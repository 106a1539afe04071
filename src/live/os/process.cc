#include "live/os/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <variant>

#include "base/check.h"
#include "base/str.h"

namespace paceline::os {
namespace {

// Which part of the child's way to exec failed; travels back through the pipe with errno.
enum class Stage : int { Exec, Directory, Group, Descriptors, ParentGone };

struct ChildFailure {
  Stage stage;
  int error;
};

// Everything that the child needs, laid out before the fork: the child may call only functions that
// are safe after a fork of a multi-threaded process, so it must not allocate.
struct ChildPlan {
  const char* program = nullptr;
  char** arguments = nullptr;
  char** environment = nullptr;
  const char* working_directory = nullptr;
  const int* inherited = nullptr;
  size_t inherited_count = 0;
  int standard_output = -1;
  int standard_error = -1;
  int failure_pipe = -1;
  int null_input = -1;
  pid_t parent = -1;
  int niceness = 0;
};

[[noreturn]] void fail_child(const ChildPlan& plan, Stage stage) {
  const ChildFailure failure{stage, errno};
  [[maybe_unused]] const ssize_t written =
      ::write(plan.failure_pipe, &failure, sizeof failure);  // below PIPE_BUF: whole or not at all
  ::_exit(127);
}

void reset_signals() {
  struct sigaction default_action {};
  default_action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &default_action, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void run_child(const ChildPlan& plan) {
  reset_signals();
  if (::setpgid(0, 0) != 0) fail_child(plan, Stage::Group);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail_child(plan, Stage::Group);
  // The parent may have died before the line above; then no signal will come.
  if (::getppid() != plan.parent) fail_child(plan, Stage::ParentGone);
  ::setpriority(PRIO_PROCESS, 0, plan.niceness);  // towards nicer is always allowed
  if (::dup2(plan.null_input, STDIN_FILENO) < 0) fail_child(plan, Stage::Descriptors);
  if (plan.standard_output >= 0 && ::dup2(plan.standard_output, STDOUT_FILENO) < 0)
    fail_child(plan, Stage::Descriptors);
  if (plan.standard_error >= 0 && ::dup2(plan.standard_error, STDERR_FILENO) < 0)
    fail_child(plan, Stage::Descriptors);
  // Also what a library has opened without close-on-exec must not reach the program.
  ::syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
  for (size_t i = 0; i < plan.inherited_count; ++i)
    if (::fcntl(plan.inherited[i], F_SETFD, 0) != 0) fail_child(plan, Stage::Descriptors);
  if (plan.working_directory != nullptr && ::chdir(plan.working_directory) != 0)
    fail_child(plan, Stage::Directory);
  ::execve(plan.program, plan.arguments, plan.environment);
  fail_child(plan, Stage::Exec);
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

bool is_executable_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

// As execvp would find it, but before the fork. The name itself if it is nowhere: exec then says
// why.
std::string find_program(const SpawnOptions& options) {
  const std::string& name = options.arguments[0];
  if (name.find('/') != std::string::npos) return name;
  std::string_view path = "/usr/local/bin:/usr/bin:/bin";
  for (const auto& [key, value] : options.environment)
    if (key == "PATH") path = value;
  while (!path.empty()) {
    const size_t end = std::min(path.find(':'), path.size());
    const std::string candidate = str(path.substr(0, end), "/", name);
    if (is_executable_file(candidate)) return candidate;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return name;
}

SpawnError explain(const ChildFailure& failure, const SpawnOptions& options,
                   const std::string& program) {
  const std::string why = std::strerror(failure.error);
  switch (failure.stage) {
    case Stage::Exec: {
      const bool is_permanent = failure.error == ENOENT || failure.error == EACCES ||
                                failure.error == ENOEXEC || failure.error == ENOTDIR;
      return {str("cannot execute ", program, ": ", why), is_permanent};
    }
    case Stage::Directory:
      return {str("cannot enter ", options.working_directory, ": ", why), true};
    case Stage::Group:
    case Stage::Descriptors:
      return {str("cannot prepare the process: ", why), false};
    case Stage::ParentGone:
      break;
  }
  return {"the process that started it has ended", false};
}

// Waits for the child to execute: the pipe closes then; a failure comes through it before.
bool read_failure(int pipe, ChildFailure* failure) {
  ssize_t bytes = 0;
  do {
    bytes = ::read(pipe, failure, sizeof *failure);
  } while (bytes < 0 && errno == EINTR);
  return bytes == static_cast<ssize_t>(sizeof *failure);
}

void wait_for(pid_t id) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(id), &info, WEXITED) != 0 && errno == EINTR) {
  }
}

}  // namespace

std::variant<Process, SpawnError> Process::spawn(const SpawnOptions& options) {
  CHECK(!options.arguments.empty());
  const std::string program = find_program(options);
  std::vector<std::string> arguments = options.arguments;
  std::vector<std::string> environment;
  for (const auto& [key, value] : options.environment) environment.push_back(str(key, "=", value));
  std::vector<char*> argument_pointers = pointers_to(arguments);
  std::vector<char*> environment_pointers = pointers_to(environment);

  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0)
    return SpawnError{str("no pipe: ", std::strerror(errno)), false};
  const Descriptor reader(pipe_ends[0]);
  Descriptor writer(pipe_ends[1]);
  const Descriptor null_input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const ChildPlan plan{.program = program.c_str(),
                       .arguments = argument_pointers.data(),
                       .environment = environment_pointers.data(),
                       .working_directory = options.working_directory.empty()
                                                ? nullptr
                                                : options.working_directory.c_str(),
                       .inherited = options.inherited.data(),
                       .inherited_count = options.inherited.size(),
                       .standard_output = options.standard_output,
                       .standard_error = options.standard_error,
                       .failure_pipe = writer.get(),
                       .null_input = null_input.get(),
                       .parent = ::getpid(),
                       .niceness = options.niceness};

  // _Fork: no fork handlers of libraries run, which could wait for locks of other threads.
  const pid_t id = ::_Fork();
  if (id == 0) run_child(plan);
  if (id < 0) return SpawnError{str("fork: ", std::strerror(errno)), false};
  writer.reset();
  ChildFailure failure{};
  if (read_failure(reader.get(), &failure)) {
    wait_for(id);
    return explain(failure, options, program);
  }
  Descriptor descriptor(static_cast<int>(::syscall(SYS_pidfd_open, id, 0)));
  if (!descriptor.is_open()) {
    const int error = errno;
    ::kill(-id, SIGKILL);
    wait_for(id);
    return SpawnError{str("pidfd_open: ", std::strerror(error)), false};
  }
  return Process(id, std::move(descriptor));
}

Process::~Process() {
  if (!descriptor_.is_open() || is_reaped_) return;
  signal_group(SIGKILL);
  reap();
}

void Process::signal_group(int signal) const {
  if (!is_reaped_) ::kill(-id_, signal);
}

bool Process::has_ended() const {
  siginfo_t info{};
  return is_reaped_ ||
         (::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOWAIT | WNOHANG) == 0 &&
          info.si_pid == id_);
}

ExitStatus Process::reap() {
  CHECK(!is_reaped_, id_);
  siginfo_t info{};
  // Seen but not yet reaped, the process still holds its pid, and so the name of the group.
  while (::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOWAIT) != 0) {
    CHECK(errno == EINTR, std::strerror(errno));
  }
  signal_group(SIGKILL);
  wait_for(id_);
  is_reaped_ = true;
  return {.is_killed = info.si_code != CLD_EXITED, .code = info.si_status};
}

std::vector<std::pair<std::string, std::string>> current_environment() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

}  // namespace paceline::os
