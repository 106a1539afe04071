#include "live/os/proc_stat.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/str.h"
#include "live/os/descriptor.h"

namespace paceline::os {
namespace {

constexpr size_t kMaxThreads = 64;
constexpr size_t kMaxEvidenceLine = 400;

// The first bytes of a small file; empty if it cannot be read.
std::string read_small_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return {};
  std::array<char, 4096> buffer;
  const ssize_t bytes = ::read(file.get(), buffer.data(), buffer.size());
  return bytes <= 0 ? std::string() : std::string(buffer.data(), static_cast<size_t>(bytes));
}

int64_t to_number(std::string_view text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// The fields after the name, which may itself contain blanks and parentheses; [0] is the state.
std::vector<std::string_view> stat_fields(std::string_view stat) {
  const size_t end_of_name = stat.rfind(')');
  if (end_of_name == std::string_view::npos) return {};
  return split(stat.substr(end_of_name + 1));
}

char state_of(std::string_view stat) {
  const std::vector<std::string_view> fields = stat_fields(stat);
  return fields.empty() ? '?' : fields[0][0];
}

std::vector<pid_t> threads_of(pid_t process) {
  std::vector<pid_t> threads;
  DIR* directory = ::opendir(str("/proc/", process, "/task").c_str());
  if (directory == nullptr) return threads;
  while (const dirent* entry = ::readdir(directory)) {
    const auto thread = static_cast<pid_t>(to_number(entry->d_name));
    if (thread > 0 && threads.size() < kMaxThreads) threads.push_back(thread);
  }
  ::closedir(directory);
  std::sort(threads.begin(), threads.end());
  return threads;
}

std::string first_line(std::string text) {
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

// "[<0>] do_select+0x1/0x2\n[<0>] ..." as "do_select < ...", innermost first.
std::string kernel_stack(const std::string& text) {
  std::string stack;
  for (const std::string_view word : split(text)) {
    if (word.starts_with('[')) continue;
    if (!stack.empty()) stack += " < ";
    stack += word.substr(0, word.find('+'));
  }
  return stack;
}

}  // namespace

ProcessStat read_process_stat(pid_t process) {
  const std::string stat = read_small_file(str("/proc/", process, "/stat"));
  const std::vector<std::string_view> fields = stat_fields(stat);
  ProcessStat result;
  // proc(5): state is field 3, utime 14, stime 15, in clock ticks.
  if (fields.size() > 12) {
    static const int64_t ticks_per_second = ::sysconf(_SC_CLK_TCK);
    const int64_t ticks = to_number(fields[11]) + to_number(fields[12]);
    result.cpu_time = Duration::nanoseconds(ticks * (1'000'000'000 / ticks_per_second));
  }
  if (fields.empty() || (fields[0] != "T" && fields[0] != "t")) return result;
  result.is_stopped = fields[0] == "T";
  for (const pid_t thread : threads_of(process)) {
    const char state = state_of(read_small_file(str("/proc/", process, "/task/", thread, "/stat")));
    if (state == 't') result.is_traced = true;
    if (state != 'T' && state != '?') result.is_stopped = false;
  }
  return result;
}

std::optional<Duration> read_run_queue_delay(pid_t process, pid_t thread) {
  const std::string text = read_small_file(str("/proc/", process, "/task/", thread, "/schedstat"));
  const std::vector<std::string_view> fields = split(text);
  if (fields.size() < 2) return std::nullopt;
  return Duration::nanoseconds(to_number(fields[1]));
}

std::vector<std::string> collect_evidence(pid_t process) {
  std::vector<std::string> lines;
  for (const pid_t thread : threads_of(process)) {
    const std::string base = str("/proc/", process, "/task/", thread);
    const std::string stat = read_small_file(base + "/stat");
    if (stat.empty()) continue;
    std::string line =
        str("thread ", thread, " (", first_line(read_small_file(base + "/comm")), ") state ",
            state_of(stat), ", waits in ", first_line(read_small_file(base + "/wchan")),
            ", syscall ", first_line(read_small_file(base + "/syscall")));
    const std::string stack = kernel_stack(read_small_file(base + "/stack"));
    if (!stack.empty()) line += ", stack " + stack;
    line.resize(std::min(line.size(), kMaxEvidenceLine));
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace paceline::os
