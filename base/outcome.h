#pragma once
// Outcome<T, E>: a T, or an E that says why there is none.
//
// Reading the value of a failed Outcome is a bug and aborts the program (REPRISE_CHECK); test ok() first.

#include <utility>
#include <variant>

#include "base/check.h"

namespace reprise {

template <class T, class E>
class [[nodiscard]] Outcome {
 public:
  Outcome(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Outcome(E error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return check(), *std::get_if<0>(&state_); }
  const T& value() const& { return check(), *std::get_if<0>(&state_); }
  T&& value() && { return check(), std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  /// Requires !ok().
  const E& error() const {
    REPRISE_CHECK(!ok(), "error() of an outcome that holds a value");
    return *std::get_if<1>(&state_);
  }

 private:
  void check() const { REPRISE_CHECK(ok(), "value() of an outcome that holds an error"); }
  std::variant<T, E> state_;
};

}  // namespace reprise
