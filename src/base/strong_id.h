// StrongId<Tag, Value>: an integer of its own type, so that a host is never taken for a slot.
#pragma once

#include <compare>
#include <ostream>

namespace paceline {

template <class Tag, class Value>
class StrongId {
 public:
  using value_type = Value;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Value value) : value_(value) {}

  constexpr Value value() const { return value_; }
  constexpr auto operator<=>(const StrongId&) const = default;
  // The following number: of an epoch, a step, an incarnation.
  constexpr StrongId next() const { return StrongId(static_cast<Value>(value_ + 1)); }

  friend std::ostream& operator<<(std::ostream& out, StrongId id) { return out << +id.value_; }

 private:
  Value value_{};
};

}  // namespace paceline
