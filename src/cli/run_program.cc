#include "cli/run_program.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/str.h"
#include "live/wire/rank_ring.h"

namespace paceline::cli {
namespace {

Error not_usable(std::string_view program, std::string_view what, std::string_view remedy) {
  return {ErrorCode::NotFound, str("program '", program, "' ", what, "; ", remedy)};
}

Status check_executable(const std::string& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0)
    return not_usable(path, "is not there", "check the path, or build it");
  if (S_ISDIR(file.st_mode)) return not_usable(path, "is a directory", "name a file in it");
  if (::access(path.c_str(), X_OK) != 0)
    return not_usable(path, "is not executable", str("chmod +x ", path));
  return {};
}

Result<std::string> find_executable(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    TRY(check_executable(name));
    return std::filesystem::absolute(name).string();
  }
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/bin:/bin" : path;
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const std::filesystem::path directory(rest.substr(0, colon));
    rest = colon == std::string_view::npos ? "" : rest.substr(colon + 1);
    const std::string candidate = (directory / name).string();
    if (check_executable(candidate)) return std::filesystem::absolute(candidate).string();
  }
  if (::access(name.c_str(), F_OK) == 0)
    return not_usable(name, "is not in PATH", str("write ./", name, " for the one here"));
  return not_usable(name, "is not in PATH", "write its path");
}

Result<std::vector<std::string>> with_python(std::vector<std::string> arguments) {
  const char* chosen = std::getenv("PYTHON_EXEC");
  TRY_ASSIGN(std::string python, find_executable(chosen == nullptr ? "python3" : chosen));
  arguments.insert(arguments.begin(), {python, "-u"});
  return arguments;
}

std::string first_bytes_of(const std::string& path) {
  constexpr size_t kMaxBytes = size_t{64} << 20;
  struct stat info {};
  // Nothing else: reading a pipe or a device would take from it, or never end.
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  std::string bytes(std::min(static_cast<size_t>(info.st_size), kMaxBytes), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(std::max(file.gcount(), std::streamsize{0})));
  return bytes;
}

bool file_mentions_paceline(const std::string& path) {
  const std::string bytes = first_bytes_of(path);
  // In a binary the word alone may come from a path in its debug information.
  if (bytes.starts_with("\177ELF"))
    return bytes.find("libpaceline") != std::string::npos ||
           bytes.find("paceline_init") != std::string::npos ||
           bytes.find(wire::kRingEnvironment) != std::string::npos;
  return bytes.find("paceline") != std::string::npos;
}

}  // namespace

Result<std::vector<std::string>> find_program(const ProgramRequest& request) {
  if (request.command.empty())
    return Failure{ErrorCode::InvalidArgument,
                   "no program to run; write pace run [flags] -- program arguments"};
  std::vector<std::string> arguments = request.command;
  if (request.is_module) {
    arguments.insert(arguments.begin(), "-m");
    return with_python(std::move(arguments));
  }
  if (arguments[0].ends_with(".py") && !request.is_no_python) {
    if (::access(arguments[0].c_str(), R_OK) != 0)
      return not_usable(arguments[0], "cannot be read", "check the path");
    return with_python(std::move(arguments));
  }
  TRY_ASSIGN(arguments[0], find_executable(arguments[0]));
  return arguments;
}

bool mentions_paceline(const std::vector<std::string>& arguments) {
  constexpr std::string_view kBetweenWords = " \t\n;&|()'\"";
  for (const std::string& argument : arguments) {
    if (file_mentions_paceline(argument)) return true;
    std::string_view rest = argument;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find_first_of(kBetweenWords), rest.size());
      if (end > 0 && end < argument.size() &&
          file_mentions_paceline(std::string(rest.substr(0, end))))
        return true;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return false;
}

}  // namespace paceline::cli
