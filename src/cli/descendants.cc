#include "cli/descendants.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/str.h"
#include "live/os/clock.h"

namespace paceline::cli {
namespace {

// Bounds the walk of a tree that grows while it is walked.
constexpr size_t kMaxDescendants = 1 << 16;
constexpr std::chrono::milliseconds kRoundPause(2);

bool is_living(pid_t process) {
  std::ifstream file(str("/proc/", process, "/stat"));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return false;
  const char state = text[name_end + 2];
  return state != 'Z' && state != 'X';
}

void append_children(pid_t process, std::vector<pid_t>& found) {
  std::error_code error;
  std::filesystem::directory_iterator task(str("/proc/", process, "/task"), error);
  // By hand: a thread or process that ends meanwhile is no error.
  for (; !error && task != std::filesystem::directory_iterator(); task.increment(error)) {
    std::ifstream file(task->path() / "children");
    pid_t child = 0;
    while (file >> child) found.push_back(child);
  }
}

}  // namespace

std::vector<pid_t> living_descendants() {
  std::vector<pid_t> found;
  append_children(::getpid(), found);
  for (size_t i = 0; i < found.size() && found.size() < kMaxDescendants; ++i)
    append_children(found[i], found);
  std::erase_if(found, [](pid_t process) { return !is_living(process); });
  return found;
}

bool end_descendants(Duration limit) {
  const Instant deadline = os::now() + limit;
  for (;;) {
    const std::vector<pid_t> descendants = living_descendants();
    if (descendants.empty()) return true;
    for (const pid_t process : descendants) ::kill(process, SIGKILL);
    if (os::now() >= deadline) return false;
    std::this_thread::sleep_for(kRoundPause);
  }
}

}  // namespace paceline::cli
