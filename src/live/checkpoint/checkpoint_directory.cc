#include "live/checkpoint/checkpoint_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/str.h"
#include "live/os/descriptor.h"

namespace paceline::checkpoint {
namespace {

constexpr const char* kPrefix = "step-";
constexpr const char* kSuffix = ".checkpoint";
constexpr const char* kUnfinished = ".checkpoint.tmp-";

std::string file_name(Step step) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "%020llu", static_cast<unsigned long long>(step.value()));
  return str(kPrefix, digits, kSuffix);
}

std::vector<std::string> files_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error))
    names.push_back(at->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

Status bring_to_disk(const std::string& directory) {
  const os::Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.is_open() && ::fsync(opened.get()) == 0) return {};
  return Failure{ErrorCode::Io,
                 str("cannot bring ", directory, " to the disk: ", std::strerror(errno))};
}

// The newest has the lowest index; a file that is no valid checkpoint takes no place.
void drop_old(const std::string& directory) {
  const std::vector<Entry> entries = list(directory);
  for (size_t i = kKept; i < entries.size(); ++i) ::unlink(entries[i].path.c_str());
}

Status refuse_if_stale(const std::string& directory, const Manifest& manifest) {
  const std::vector<Entry> entries = list(directory);
  if (entries.empty() || entries.front().manifest.order < manifest.order) return {};
  const Order& newest = entries.front().manifest.order;
  return Failure{ErrorCode::Refused,
                 str(entries.front().path, " of epoch ", newest.epoch, " is not older than step ",
                     manifest.step, " of epoch ", manifest.order.epoch)};
}

}  // namespace

std::vector<Entry> list(const std::string& directory) {
  std::vector<Entry> entries;
  for (const std::string& name : files_in(directory)) {
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    std::string path = directory + "/" + name;
    Result<Manifest> manifest = read_manifest(path);
    if (manifest) entries.push_back({std::move(path), std::move(*manifest)});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.manifest.order > b.manifest.order; });
  return entries;
}

Status save(const std::string& directory, const Manifest& manifest, std::span<const std::byte> data,
            const std::string& writer) {
  TRY(refuse_if_stale(directory, manifest));
  const std::string name = directory + "/" + file_name(manifest.step);
  const std::string unfinished = str(name, ".tmp-", writer);
  Status status = write_file(unfinished, manifest, data);
  // Again: the writing may have taken long.
  if (status) status = refuse_if_stale(directory, manifest);
  if (status && ::rename(unfinished.c_str(), name.c_str()) != 0)
    status = Failure{ErrorCode::Io, str("cannot rename ", unfinished, ": ", std::strerror(errno))};
  if (!status) {
    ::unlink(unfinished.c_str());
    return status;
  }
  TRY(bring_to_disk(directory));
  drop_old(directory);
  return {};
}

Result<Loaded> load(const std::string& path) {
  std::vector<Error> passed_over;
  Result<Checkpoint> named = read_file(path);
  if (named) return Loaded{path, std::move(*named), {}};
  passed_over.push_back(named.error());
  // What may have come after it was not there when it was chosen.
  const std::string name = std::filesystem::path(path).filename().string();
  const Result<Manifest> manifest = read_manifest(path);
  for (const Entry& entry : list(std::filesystem::path(path).parent_path().string())) {
    const bool is_before = manifest ? entry.manifest.order < manifest->order
                                    : std::filesystem::path(entry.path).filename() < name;
    if (!is_before) continue;
    Result<Checkpoint> before = read_file(entry.path);
    if (before) return Loaded{entry.path, std::move(*before), std::move(passed_over)};
    passed_over.push_back(before.error());
  }
  return Failure{ErrorCode::Corrupt,
                 passed_over.back().message + "; there is no older checkpoint that is whole"};
}

void remove_unfinished(const std::string& directory) {
  for (const std::string& name : files_in(directory))
    if (name.starts_with(kPrefix) && name.find(kUnfinished) != std::string::npos)
      ::unlink((directory + "/" + name).c_str());
}

}  // namespace paceline::checkpoint
