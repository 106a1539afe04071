// Instant and Duration: integer nanoseconds. An Instant counts from an epoch of its driver's choice
// (CLOCK_MONOTONIC in the daemons, zero in the simulator); core never reads a clock.
#pragma once

#include <compare>
#include <cstdint>
#include <ostream>

namespace paceline {

class Duration {
 public:
  constexpr Duration() = default;
  static constexpr Duration nanoseconds(int64_t n) { return Duration(n); }
  static constexpr Duration microseconds(int64_t n) { return Duration(n * 1'000); }
  static constexpr Duration milliseconds(int64_t n) { return Duration(n * 1'000'000); }
  static constexpr Duration seconds(int64_t n) { return Duration(n * 1'000'000'000); }
  static constexpr Duration max() { return Duration(INT64_MAX); }

  constexpr int64_t in_nanoseconds() const { return nanoseconds_; }
  constexpr int64_t in_microseconds() const { return nanoseconds_ / 1'000; }
  constexpr int64_t in_milliseconds() const { return nanoseconds_ / 1'000'000; }
  constexpr double in_seconds() const { return static_cast<double>(nanoseconds_) / 1e9; }

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator+(Duration d) const { return Duration(nanoseconds_ + d.nanoseconds_); }
  constexpr Duration operator-(Duration d) const { return Duration(nanoseconds_ - d.nanoseconds_); }
  constexpr Duration operator*(int64_t k) const { return Duration(nanoseconds_ * k); }
  constexpr Duration operator/(int64_t k) const { return Duration(nanoseconds_ / k); }
  constexpr Duration& operator+=(Duration d) { return *this = *this + d; }

  friend std::ostream& operator<<(std::ostream& out, Duration d) {
    const int64_t us = d.nanoseconds_ / 1'000;
    if (us < 10'000 && us > -10'000) return out << us << " us";
    if (us < 10'000'000 && us > -10'000'000) return out << us / 1'000 << " ms";
    return out << us / 1'000'000 << " s";
  }

 private:
  constexpr explicit Duration(int64_t n) : nanoseconds_(n) {}
  int64_t nanoseconds_ = 0;
};

class Instant {
 public:
  constexpr Instant() = default;
  static constexpr Instant from_nanoseconds(int64_t n) { return Instant(n); }
  static constexpr Instant max() { return Instant(INT64_MAX); }

  constexpr int64_t in_nanoseconds() const { return nanoseconds_; }
  constexpr auto operator<=>(const Instant&) const = default;
  constexpr Instant operator+(Duration d) const {
    return Instant(nanoseconds_ + d.in_nanoseconds());
  }
  constexpr Instant operator-(Duration d) const {
    return Instant(nanoseconds_ - d.in_nanoseconds());
  }
  constexpr Duration operator-(Instant t) const {
    return Duration::nanoseconds(nanoseconds_ - t.nanoseconds_);
  }

 private:
  constexpr explicit Instant(int64_t n) : nanoseconds_(n) {}
  int64_t nanoseconds_ = 0;
};

}  // namespace paceline
