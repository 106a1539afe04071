// Result<T>: a value or an Error; Status: success or an Error. For failures that are expected.
//
// The member names are those of std::expected, so that it can become an alias on a newer compiler.
// TRY(expression) and TRY_ASSIGN(declaration, expression) return the error to the caller.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace paceline {

enum class ErrorCode : uint8_t {
  InvalidArgument,  // the input can never be accepted
  NotFound,
  AlreadyExists,
  Refused,      // understood, and not allowed (fencing, policy)
  Unavailable,  // the other side is not there; may pass
  Timeout,
  Corrupt,  // data do not match their checksum or format
  Exhausted,
  Io,  // the operating system refused
};

struct Error {
  ErrorCode code = ErrorCode::Io;
  std::string message;
  bool operator==(const Error&) const = default;
};

// Returned where a Result or Status is expected: `return Failure{ErrorCode::NotFound, "..."};`
using Failure = Error;

template <class T>
class [[nodiscard]] Result {
 public:
  // Implicit, so that a function returns its value or a Failure as it stands, as with
  // std::expected. NOLINTBEGIN(google-explicit-constructor)
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  // NOLINTEND(google-explicit-constructor)

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & {
    CHECK(has_value(), error_text());
    return std::get<0>(state_);
  }
  const T& value() const& {
    CHECK(has_value(), error_text());
    return std::get<0>(state_);
  }
  T&& value() && {
    CHECK(has_value(), error_text());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    CHECK(!has_value());
    return std::get<1>(state_);
  }

 private:
  std::string error_text() const { return has_value() ? "" : std::get<1>(state_).message; }
  std::variant<T, Error> state_;
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error)
      : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor): as above

  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  const Error& error() const {
    CHECK(error_.has_value());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace paceline

#define PACELINE_JOIN_INNER(a, b) a##b
#define PACELINE_JOIN(a, b) PACELINE_JOIN_INNER(a, b)

#define TRY(expression)                                         \
  do {                                                          \
    auto paceline_try = (expression);                           \
    if (!paceline_try.has_value()) return paceline_try.error(); \
  } while (false)

#define TRY_ASSIGN(declaration, expression)                   \
  auto PACELINE_JOIN(paceline_try_, __LINE__) = (expression); \
  if (!PACELINE_JOIN(paceline_try_, __LINE__).has_value())    \
    return PACELINE_JOIN(paceline_try_, __LINE__).error();    \
  declaration = std::move(PACELINE_JOIN(paceline_try_, __LINE__)).value()
