#include "cli/run_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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
constexpr const char* kControllerFile = "/controller";

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

enum class Life { None, Alive, Dead };

// Of the run whose folder has this name. None: it is no folder of a run, or of another namespace.
Life life_of_run(const std::string& name) {
  const std::string ours = str(kPrefix, pid_namespace(), "-");
  if (!name.starts_with(ours)) return Life::None;
  const int process = std::atoi(name.c_str() + ours.size());
  if (process <= 0) return Life::None;
  const std::optional<std::string> start_time = start_time_of(process);
  return start_time && name.starts_with(name_of_run(process, *start_time)) ? Life::Alive
                                                                           : Life::Dead;
}

// Folders of this user's runs, in order of name.
std::vector<std::string> folders(const std::filesystem::path& parent, Life life) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(parent, error)) {
    struct stat file {};
    if (life_of_run(entry.path().filename().string()) != life) continue;
    if (::lstat(entry.path().c_str(), &file) != 0 || !S_ISDIR(file.st_mode) ||
        file.st_uid != ::geteuid())
      continue;
    found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

Result<RunDirectory> RunDirectory::make() {
  const std::filesystem::path parent = temporary_directory();
  for (const std::string& dead : folders(parent, Life::Dead)) {
    std::error_code ignored;
    std::filesystem::remove_all(dead, ignored);
  }
  const std::string name = name_of_run(::getpid(), start_time_of(::getpid()).value_or("0"));
  std::string path = (parent / (name + "XXXXXX")).string();
  if (::mkdtemp(path.data()) == nullptr)
    return Failure{ErrorCode::Io,
                   str("cannot make a folder in ", parent.string(), ": ", std::strerror(errno),
                       "; set TMPDIR to one that is writable")};
  return RunDirectory(std::move(path));
}

std::vector<std::string> RunDirectory::of_the_living() {
  return folders(temporary_directory(), Life::Alive);
}

// Two lines: address, token. The folder is its owner's alone.
Status RunDirectory::tell_controller(const rpc::RpcAddress& address) const {
  std::ofstream file(path_ + kControllerFile);
  file << address.address << '\n' << address.token << '\n';
  file.close();
  if (file) return {};
  return Failure{ErrorCode::Io,
                 str("cannot write ", path_, kControllerFile, "; set TMPDIR to one with room")};
}

Result<rpc::RpcAddress> RunDirectory::controller_in(const std::string& path) {
  std::ifstream file(path + kControllerFile);
  rpc::RpcAddress address;
  std::getline(file, address.address);
  std::getline(file, address.token);
  if (file) return address;
  return Failure{ErrorCode::NotFound,
                 str(path, " is no folder of a run; name one that begins with ",
                     (temporary_directory() / kPrefix).string())};
}

RunDirectory::~RunDirectory() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::exchange(other.path_, std::string())) {}

}  // namespace paceline::cli
