#include "cli/run_guard.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "cli/descendants.h"
#include "cli/exit_code.h"
#include "live/os/descriptor.h"

namespace paceline::cli {
namespace {

constexpr Duration kEndLimit = Duration::seconds(5);
constexpr int kCodeOfSignal = 128;  // as shells count

// Ends this process and all below it when the guard is gone. A thread, because the main thread
// may be busy with a report or wait for a call.
class GuardWatch {
 public:
  explicit GuardWatch(os::Descriptor life)
      : life_(std::move(life)), end_(::eventfd(0, EFD_CLOEXEC)), thread_([this] { run(); }) {}
  ~GuardWatch() {
    CHECK(::eventfd_write(end_.get(), 1) == 0);
    thread_.join();
  }
  GuardWatch(const GuardWatch&) = delete;
  GuardWatch& operator=(const GuardWatch&) = delete;

 private:
  void run() const {
    pollfd ready[2] = {{.fd = life_.get(), .events = POLLIN, .revents = 0},
                       {.fd = end_.get(), .events = POLLIN, .revents = 0}};
    while (::poll(ready, 2, -1) < 0 && errno == EINTR) {
    }
    if (ready[1].revents != 0 || ready[0].revents == 0) return;
    end_descendants(kEndLimit);
    ::_exit(kCodeOfSignal + SIGKILL);
  }

  os::Descriptor life_;  // readable once the guard is gone: nobody writes
  os::Descriptor end_;
  std::thread thread_;
};

sigset_t guarded_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD}) ::sigaddset(&set, signal);
  return set;
}

// One sent by the kernel went to the whole foreground group of the terminal, launcher included.
bool is_for_this_process_alone(const siginfo_t& signal) { return signal.si_code <= SI_USER; }

// The wait status of the launcher.
int wait_for_launcher(pid_t launcher, const sigset_t& signals) {
  for (;;) {
    int status = 0;
    // Adopted processes are reaped on the way.
    for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;)
      if (ended == launcher) return status;
    siginfo_t signal{};
    if (::sigwaitinfo(&signals, &signal) < 0 || signal.si_signo == SIGCHLD) continue;
    if (is_for_this_process_alone(signal)) ::kill(launcher, signal.si_signo);
  }
}

int code_of(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  std::fprintf(stderr, "pace: the launcher was ended by signal %d; the job is ended with it\n",
               WTERMSIG(status));
  return kCodeOfSignal + WTERMSIG(status);
}

}  // namespace

int run_guarded(const std::function<int()>& launch) {
  const sigset_t signals = guarded_signals();
  sigset_t before;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0 || ::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 ||
      ::pthread_sigmask(SIG_BLOCK, &signals, &before) != 0) {
    std::fprintf(stderr, "pace: cannot prepare the launcher: %s\n", std::strerror(errno));
    return kExitBug;
  }
  os::Descriptor life_read(ends[0]);
  os::Descriptor life_write(ends[1]);  // the guard's alone: closed by the kernel when it ends
  const pid_t launcher = ::fork();
  if (launcher < 0) {
    std::fprintf(stderr, "pace: cannot start the launcher: %s\n", std::strerror(errno));
    return kExitBug;
  }
  if (launcher == 0) {
    life_write.reset();
    CHECK(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    const GuardWatch watch(std::move(life_read));  // its thread keeps the signals blocked
    CHECK(::pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0);
    return launch();
  }
  life_read.reset();
  const int status = wait_for_launcher(launcher, signals);
  end_descendants(kEndLimit);
  return code_of(status);
}

}  // namespace paceline::cli
