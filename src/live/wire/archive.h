// ByteWriter and ByteReader: two archives with one interface, so that the fields of a record are
// listed once and the two directions cannot drift apart:
//
//   template <class Archive, class T>  void fields(Archive& archive, T& thing) {
//     archive.number(thing.turn);
//     archive.list(thing.items, kMaxItems, [&](auto& item) { archive.number(item); });
//   }
//
// Integers are little-endian of their own width; a list is u32 count | items; a text is
// u32 length | bytes. The reader accepts nothing but what the writer makes: after the first
// violation it reads nothing more and says so in ok().
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/strong_id.h"

namespace paceline::wire {

class ByteWriter {
 public:
  static constexpr bool kIsReader = false;

  template <std::integral T>
  void number(T value) {
    using Unsigned = std::make_unsigned_t<T>;
    const auto bits = static_cast<Unsigned>(value);
    for (size_t i = 0; i < sizeof(T); ++i)
      bytes_.push_back(static_cast<std::byte>((bits >> (8 * i)) & 0xff));
  }
  template <class Tag, class T>
  void number(StrongId<Tag, T> id) {
    number(id.value());
  }
  void flag(bool value) { number(static_cast<uint8_t>(value)); }
  template <class Enum>
  void enumeration(Enum value, Enum) {
    number(static_cast<uint8_t>(value));
  }
  void text(const std::string& text, size_t) {
    number(static_cast<uint32_t>(text.size()));
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
  }
  template <class T, class Item>
  void list(const std::vector<T>& items, size_t, Item&& item) {
    number(static_cast<uint32_t>(items.size()));
    for (const T& each : items) item(each);
  }
  void require(bool) {}

  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class ByteReader {
 public:
  static constexpr bool kIsReader = true;

  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <std::integral T>
  void number(T& value) {
    using Unsigned = std::make_unsigned_t<T>;
    if (!has(sizeof(T))) return;
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof(T); ++i) bits |= static_cast<uint64_t>(rest_[i]) << (8 * i);
    value = static_cast<T>(static_cast<Unsigned>(bits));
    rest_ = rest_.subspan(sizeof(T));
  }
  template <class Tag, class T>
  void number(StrongId<Tag, T>& id) {
    T value{};
    number(value);
    id = StrongId<Tag, T>(value);
  }
  void flag(bool& value) {
    uint8_t byte = 0;
    number(byte);
    require(byte <= 1);
    value = byte == 1;
  }
  // `last` is the greatest enumerator; the enumerators have no gaps.
  template <class Enum>
  void enumeration(Enum& value, Enum last) {
    uint8_t byte = 0;
    number(byte);
    require(byte <= static_cast<uint8_t>(last));
    if (ok_) value = static_cast<Enum>(byte);
  }
  void text(std::string& text, size_t max_size) {
    uint32_t size = 0;
    number(size);
    require(size <= max_size);
    if (!has(size)) return;
    text.assign(reinterpret_cast<const char*>(rest_.data()), size);
    rest_ = rest_.subspan(size);
  }
  template <class T, class Item>
  void list(std::vector<T>& items, size_t max_count, Item&& item) {
    uint32_t count = 0;
    number(count);
    require(count <= max_count && count <= rest_.size());  // an item has at least one byte
    for (uint32_t i = 0; ok_ && i < count; ++i) item(items.emplace_back());
  }
  void require(bool condition) {
    if (!condition) ok_ = false;
  }

  bool ok() const { return ok_; }
  // Everything was read, and nothing is left over.
  bool is_complete() const { return ok_ && rest_.empty(); }

 private:
  bool has(size_t size) {
    require(size <= rest_.size());
    return ok_;
  }
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace paceline::wire
