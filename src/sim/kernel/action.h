// Action: something to be done once, later. Moved, never copied; what it holds lies in place up to
// kInPlaceBytes, so that scheduling a message allocates nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace paceline::sim {

class Action {
 public:
  static constexpr size_t kInPlaceBytes = 80;  // a message between two ranks

  Action() = default;
  template <class Callable>
  requires(!std::is_same_v<std::remove_cvref_t<Callable>, Action>) Action(Callable callable) {
    if constexpr (fits<Callable>()) {
      new (storage_) Callable(std::move(callable));
      operations_ = &kOperations<Callable>;
    } else {
      auto boxed = [box = std::make_unique<Callable>(std::move(callable))] { (*box)(); };
      new (storage_) decltype(boxed)(std::move(boxed));
      operations_ = &kOperations<decltype(boxed)>;
    }
  }
  Action(Action&& other) noexcept { take(other); }
  Action& operator=(Action&& other) noexcept {
    if (this == &other) return *this;
    clear();
    take(other);
    return *this;
  }
  ~Action() { clear(); }

  void operator()() {
    CHECK(operations_ != nullptr);
    operations_->call(storage_);
  }

 private:
  struct Operations {
    void (*call)(void* callable);
    void (*move)(void* to, void* from);  // and destroys what was moved
    void (*destroy)(void* callable);
  };

  template <class Callable>
  static constexpr bool fits() {
    return sizeof(Callable) <= kInPlaceBytes && alignof(Callable) <= alignof(std::max_align_t) &&
           std::is_nothrow_move_constructible_v<Callable>;
  }
  template <class Callable>
  static constexpr Operations kOperations = {
      .call = [](void* callable) { (*static_cast<Callable*>(callable))(); },
      .move =
          [](void* to, void* from) {
            new (to) Callable(std::move(*static_cast<Callable*>(from)));
            static_cast<Callable*>(from)->~Callable();
          },
      .destroy = [](void* callable) { static_cast<Callable*>(callable)->~Callable(); }};

  void take(Action& other) {
    operations_ = std::exchange(other.operations_, nullptr);
    if (operations_ != nullptr) operations_->move(storage_, other.storage_);
  }
  void clear() {
    if (operations_ != nullptr) std::exchange(operations_, nullptr)->destroy(storage_);
  }

  const Operations* operations_ = nullptr;
  alignas(std::max_align_t) std::byte storage_[kInPlaceBytes];
};

}  // namespace paceline::sim
