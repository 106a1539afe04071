// Interning: each distinct value is kept once and named by a number, so that a state of the whole
// job is a few numbers, and what a core does at an event is computed once.
//
// Values are told apart by a 64-bit digest. With the 10^6 values of the largest runs the chance
// that any two share one is below 10^-7.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/hash.h"

namespace paceline::explore {

// A map from digests to numbers: open addressing, insert only, 12 bytes a slot.
class IdMap {
 public:
  IdMap() : keys_(1u << 10), ids_(1u << 10) {}

  // The number of `key`; inserts `id` if the key is new.
  std::pair<uint32_t, bool> insert(uint64_t key, uint32_t id) {
    if (size_ * 10 > keys_.size() * 7) grow();
    const size_t i = find(key | 1);
    if (keys_[i] != 0) return {ids_[i], false};
    keys_[i] = key | 1;
    ids_[i] = id;
    ++size_;
    return {id, true};
  }
  const uint32_t* find_id(uint64_t key) const {
    const size_t i = find(key | 1);
    return keys_[i] != 0 ? &ids_[i] : nullptr;
  }
  size_t size() const { return size_; }

 private:
  // REQUIRES: key is not 0, which marks an empty slot; callers give up the lowest bit for that.
  size_t find(uint64_t key) const {
    size_t i = (key >> 1) & (keys_.size() - 1);
    while (keys_[i] != 0 && keys_[i] != key) i = (i + 1) & (keys_.size() - 1);
    return i;
  }
  void grow() {
    std::vector<uint64_t> old_keys(keys_.size() * 2);
    std::vector<uint32_t> old_ids(ids_.size() * 2);
    old_keys.swap(keys_);
    old_ids.swap(ids_);
    for (size_t i = 0; i < old_keys.size(); ++i) {
      if (old_keys[i] == 0) continue;
      const size_t to = find(old_keys[i]);
      keys_[to] = old_keys[i];
      ids_[to] = old_ids[i];
    }
  }
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> ids_;
  size_t size_ = 0;
};

// The values of one type. Number 0 is reserved for "none".
template <class Value>
class Interner {
 public:
  uint32_t intern(Value value, uint64_t digest) {
    const auto [id, is_new] = ids_.insert(digest, static_cast<uint32_t>(values_.size() + 1));
    if (is_new) values_.push_back(std::move(value));
    return id;
  }
  const Value& at(uint32_t id) const { return values_[id - 1]; }
  size_t size() const { return values_.size(); }

 private:
  IdMap ids_;
  std::deque<Value> values_;
};

// What follows from (who, event), computed once. `key` names both.
template <class Outcome>
class Memo {
 public:
  template <class Function>
  const Outcome& get(uint64_t key, Function compute) {
    if (const uint32_t* found = ids_.find_id(key)) return outcomes_[*found];
    Outcome outcome = compute();
    ids_.insert(key, static_cast<uint32_t>(outcomes_.size()));
    outcomes_.push_back(std::move(outcome));
    return outcomes_.back();
  }

 private:
  IdMap ids_;
  std::deque<Outcome> outcomes_;
};

inline uint64_t key_of(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  return mix64(mix64(mix64(a) ^ b << 40 ^ c << 32 ^ d) + 1);
}

}  // namespace paceline::explore
