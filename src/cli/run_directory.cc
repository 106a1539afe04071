#include "cli/run_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "base/str.h"

namespace paceline::cli {
namespace {

constexpr const char* kPrefix = "paceline-run-";

std::filesystem::path temporary_directory() {
  const char* chosen = std::getenv("TMPDIR");
  return chosen == nullptr || *chosen == '\0' ? "/tmp" : chosen;
}

// Which life of a process id this is: its start time in ticks. None if there is no such process, or
// if it has ended and was not reaped yet.
std::optional<std::string> start_time_of(pid_t process) {
  std::ifstream file(str("/proc/", process, "/stat"));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  constexpr int kState = 3;  // numbered from 1; the name is the second
  constexpr int kStartTime = 22;
  for (int i = kState; i <= kStartTime; ++i) {
    fields >> field;
    if (i == kState && (field == "Z" || field == "X")) return std::nullopt;
  }
  if (!fields) return std::nullopt;
  return field;
}

// Inode of the pid namespace: another container's process ids mean nothing here.
uint64_t pid_namespace() {
  struct stat file {};
  return ::stat("/proc/self/ns/pid", &file) == 0 ? file.st_ino : 0;
}

// "paceline-run-<namespace>-<process>-<start time>-"
std::string name_of_run(pid_t process, const std::string& start_time) {
  return str(kPrefix, pid_namespace(), "-", process, "-", start_time, "-");
}

bool is_of_dead_run(const std::string& name) {
  const std::string ours = str(kPrefix, pid_namespace(), "-");
  if (!name.starts_with(ours)) return false;
  const int process = std::atoi(name.c_str() + ours.size());
  if (process <= 0) return false;
  const std::optional<std::string> start_time = start_time_of(process);
  return !start_time || !name.starts_with(name_of_run(process, *start_time));
}

void remove_those_of_the_dead(const std::filesystem::path& parent) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(parent, error)) {
    struct stat file {};
    if (!is_of_dead_run(entry.path().filename().string())) continue;
    if (::lstat(entry.path().c_str(), &file) != 0 || !S_ISDIR(file.st_mode) ||
        file.st_uid != ::geteuid())
      continue;
    std::error_code ignored;
    std::filesystem::remove_all(entry.path(), ignored);
  }
}

}  // namespace

Result<RunDirectory> RunDirectory::make() {
  const std::filesystem::path parent = temporary_directory();
  remove_those_of_the_dead(parent);
  const std::string name = name_of_run(::getpid(), start_time_of(::getpid()).value_or("0"));
  std::string path = (parent / (name + "XXXXXX")).string();
  if (::mkdtemp(path.data()) == nullptr)
    return Failure{ErrorCode::Io,
                   str("cannot make a folder in ", parent.string(), ": ", std::strerror(errno),
                       "; set TMPDIR to one that is writable")};
  return RunDirectory(std::move(path));
}

RunDirectory::~RunDirectory() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::exchange(other.path_, std::string())) {}

}  // namespace paceline::cli
