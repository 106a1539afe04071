#include "live/checkpoint/checkpoint_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/str.h"
#include "live/os/descriptor.h"
#include "live/os/whole_io.h"
#include "live/wire/archive.h"

#define XXH_INLINE_ALL  // no symbols that could meet those of the program's own copy
#include <xxhash.h>

namespace paceline::checkpoint {
namespace {

constexpr std::string_view kMagic = "PACECKPT";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 8 + 4 + 4 + 8;
constexpr uint32_t kMaxManifestBytes = 1 << 28;
constexpr size_t kMaxParts = 1 << 20;
constexpr size_t kMaxNameBytes = 1 << 16;
constexpr size_t kMaxChunks = kMaxManifestBytes / 8;

uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

size_t chunk_count(uint64_t size_bytes) { return (size_bytes + kChunkBytes - 1) / kChunkBytes; }

std::span<const std::byte> chunk(std::span<const std::byte> data, size_t index) {
  const size_t begin = index * kChunkBytes;
  return data.subspan(begin, std::min(kChunkBytes, data.size() - begin));
}

template <class Archive, class T>
void fields(Archive& archive, T& manifest) {
  archive.number(manifest.order.generation);
  archive.number(manifest.order.epoch);
  archive.number(manifest.order.committed);
  archive.number(manifest.step);
  archive.number(manifest.round);
  archive.number(manifest.micro_batches);
  archive.number(manifest.seed);
  archive.enumeration(manifest.reduce, ReduceMode::Fast);
  archive.list(manifest.parts, kMaxParts, [&](auto& part) {
    archive.text(part.name, kMaxNameBytes);
    archive.number(part.size_bytes);
  });
  archive.number(manifest.own_state_bytes);
  archive.list(manifest.checksums, kMaxChunks, [&](auto& sum) { archive.number(sum); });
}

Failure refused(const char* what, const std::string& path) {
  const ErrorCode code = errno == ENOENT ? ErrorCode::NotFound : ErrorCode::Io;
  return {code, str(what, " ", path, ": ", std::strerror(errno))};
}

Failure corrupt(const std::string& path, const std::string& what) {
  return {ErrorCode::Corrupt, path + ": " + what};
}

Status write_all(const os::Descriptor& file, std::span<const std::byte> bytes, uint64_t offset,
                 const std::string& path) {
  if (!os::write_whole(file.get(), bytes, offset)) return refused("cannot write", path);
  return {};
}

// Fills `bytes` from `offset`. What is not there is the file's fault.
Status read_all(const os::Descriptor& file, std::span<std::byte> bytes, uint64_t offset,
                const std::string& path) {
  const std::optional<size_t> size = os::read_whole(file.get(), bytes, offset);
  if (!size) return refused("cannot read", path);
  if (*size < bytes.size()) return corrupt(path, "it is shorter than it says");
  return {};
}

std::vector<std::byte> header_of(std::span<const std::byte> manifest) {
  wire::ByteWriter header;
  for (const char c : kMagic) header.number(static_cast<uint8_t>(c));
  header.number(kVersion);
  header.number(static_cast<uint32_t>(manifest.size()));
  header.number(checksum(manifest));
  return header.take();
}

struct Opened {
  os::Descriptor file;
  Manifest manifest;
  uint64_t data_offset = 0;
};

Result<Opened> open_file(const std::string& path) {
  Opened opened{.file = os::Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)),
                .manifest = {},
                .data_offset = 0};
  if (!opened.file.is_open()) return refused("cannot open", path);
  std::vector<std::byte> header(kHeaderBytes);
  TRY(read_all(opened.file, header, 0, path));
  if (std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0)
    return corrupt(path, "it is no checkpoint");
  wire::ByteReader reader(std::span<const std::byte>(header).subspan(kMagic.size()));
  uint32_t version = 0, manifest_bytes = 0;
  uint64_t sum = 0;
  reader.number(version);
  reader.number(manifest_bytes);
  reader.number(sum);
  if (version != kVersion)
    return corrupt(path, str("its format is version ", version, ", not ", kVersion));
  struct stat info {};
  if (::fstat(opened.file.get(), &info) != 0) return refused("cannot look at", path);
  const auto size_bytes = static_cast<uint64_t>(info.st_size);
  if (manifest_bytes > kMaxManifestBytes || kHeaderBytes + manifest_bytes > size_bytes)
    return corrupt(path, "its manifest is not whole");
  std::vector<std::byte> manifest(manifest_bytes);
  TRY(read_all(opened.file, manifest, kHeaderBytes, path));
  if (checksum(manifest) != sum) return corrupt(path, "its manifest does not match its checksum");
  wire::ByteReader body(manifest);
  fields(body, opened.manifest);
  if (!body.is_complete() ||
      opened.manifest.checksums.size() != chunk_count(opened.manifest.data_bytes()))
    return corrupt(path, "its manifest is malformed");
  opened.data_offset = kHeaderBytes + manifest_bytes;
  const uint64_t expected = opened.data_offset + opened.manifest.data_bytes();
  if (size_bytes != expected)
    return corrupt(path, str("it has ", size_bytes, " bytes, not ", expected));
  return opened;
}

}  // namespace

uint64_t Manifest::data_bytes() const {
  uint64_t size = own_state_bytes;
  for (const Part& part : parts) size += part.size_bytes;
  return size;
}

Status write_file(const std::string& path, Manifest manifest, std::span<const std::byte> data) {
  CHECK(data.size() == manifest.data_bytes(), data.size(), " != ", manifest.data_bytes());
  manifest.checksums.clear();
  for (size_t i = 0; i < chunk_count(data.size()); ++i)
    manifest.checksums.push_back(checksum(chunk(data, i)));
  wire::ByteWriter writer;
  fields(writer, std::as_const(manifest));
  const std::vector<std::byte> body = writer.take();

  const os::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.is_open()) return refused("cannot create", path);
  TRY(write_all(file, header_of(body), 0, path));
  TRY(write_all(file, body, kHeaderBytes, path));
  TRY(write_all(file, data, kHeaderBytes + body.size(), path));
  if (::fsync(file.get()) != 0) return refused("cannot bring to the disk", path);
  return {};
}

Result<Manifest> read_manifest(const std::string& path) {
  TRY_ASSIGN(Opened opened, open_file(path));
  return std::move(opened.manifest);
}

Result<Checkpoint> read_file(const std::string& path) {
  TRY_ASSIGN(Opened opened, open_file(path));
  std::vector<std::byte> data(opened.manifest.data_bytes());
  TRY(read_all(opened.file, data, opened.data_offset, path));
  for (size_t i = 0; i < opened.manifest.checksums.size(); ++i)
    if (checksum(chunk(data, i)) != opened.manifest.checksums[i])
      return corrupt(path, str("chunk ", i, " does not match its checksum"));
  return Checkpoint{std::move(opened.manifest), std::move(data)};
}

}  // namespace paceline::checkpoint
