// Resources: amounts of everything that is counted, as integers. GPUs and CPUs in thousandths,
// memory in MiB, named resources (device claims, licences) in units.
//
// A fraction of a GPU is accounting only: nothing here keeps a program to its part.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace paceline::sched {

inline constexpr size_t kGpu = 0;
inline constexpr size_t kCpu = 1;
inline constexpr size_t kMemory = 2;
inline constexpr size_t kFirstNamed = 3;
inline constexpr size_t kMaxResources = 8;

inline constexpr int64_t kMilli = 1000;
// A quota or limit that is not there. Sums of a few stay far below the end of the range.
inline constexpr int64_t kUnlimited = INT64_MAX / 4;

class Resources {
 public:
  constexpr Resources() = default;
  static constexpr Resources all(int64_t amount) {
    Resources result;
    result.amounts_.fill(amount);
    return result;
  }
  static constexpr Resources gpus(int64_t count) { return Resources().with(kGpu, count * kMilli); }

  constexpr Resources with(size_t resource, int64_t amount) const {
    Resources result = *this;
    result.amounts_[resource] = amount;
    return result;
  }

  constexpr int64_t operator[](size_t resource) const { return amounts_[resource]; }
  constexpr int64_t& operator[](size_t resource) { return amounts_[resource]; }
  constexpr bool operator==(const Resources&) const = default;
  constexpr auto operator<=>(const Resources&) const = default;  // an order to sort by, no more

  constexpr Resources& operator+=(const Resources& other) {
    for (size_t i = 0; i < kMaxResources; ++i) amounts_[i] += other.amounts_[i];
    return *this;
  }
  constexpr Resources& operator-=(const Resources& other) {
    for (size_t i = 0; i < kMaxResources; ++i) amounts_[i] -= other.amounts_[i];
    return *this;
  }
  constexpr Resources operator+(const Resources& other) const { return Resources(*this) += other; }
  constexpr Resources operator-(const Resources& other) const { return Resources(*this) -= other; }
  constexpr Resources operator*(int64_t factor) const {
    Resources result = *this;
    for (int64_t& amount : result.amounts_) amount *= factor;
    return result;
  }

  constexpr bool fits_in(const Resources& room) const {
    for (size_t i = 0; i < kMaxResources; ++i)
      if (amounts_[i] > room.amounts_[i]) return false;
    return true;
  }
  constexpr bool is_zero() const { return *this == Resources(); }

 private:
  std::array<int64_t, kMaxResources> amounts_{};
};

}  // namespace paceline::sched
