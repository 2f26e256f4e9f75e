#pragma once
// Task<T>: a coroutine that belongs to an actor and returns a T.
//
//   Task<int> Librarian::count_pages(Book book) {
//     auto answer = book.shelf.ask(FindPages{book.id}, 2s);
//     Result<int> pages = co_await answer;
//     co_return pages ? *pages : 0;
//   }
//
// A task is lazy: it starts when a handler or another task of the same actor awaits it, and always runs on
// that actor's executor, in its turns. The Task object owns the frame; destroying it destroys the suspended
// coroutine. An exception propagates to the awaiter, and from a handler's own task it fails the actor.
//
// Rules for code that must compile with GCC 12, whose co_await mishandles temporaries:
//   - name the awaitable as a local, then `co_await name`; no co_await inside conditions, ?:, braces,
//     arguments or structured bindings;
//   - a coroutine is a named function with parameters by value, never a capturing lambda;
//   - no over-aligned object (alignas > 16) in a frame.
//
// Frames come from the pool (runtime/detail/pool.h). Threading: the actor's executor only.

#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "runtime/detail/activation.h"
#include "runtime/detail/pool.h"

namespace reprise::runtime {

template <class T>
class Task;

/// Base of types a Task may await: tasks, and the runtime's awaitables, which resume on the actor.
struct ActorAwaitable {};

/// Wraps awaitables in co_await expressions: GCC 12 would copy the awaitable itself into the frame.
template <class Awaitable>
struct AwaitByReference {
  Awaitable& awaitable;
  bool await_ready() { return awaitable.await_ready(); }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    awaitable.await_suspend(handle);
  }
  decltype(auto) await_resume() { return awaitable.await_resume(); }
};

class TaskPromiseBase : public Pooled {
 public:
  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
      TaskPromiseBase& promise = ended.promise();
      promise.activation_->run_next(promise.awaiter_);  // null at the root: the loop ends
    }
    void await_resume() const noexcept {}
  };

  std::suspend_always initial_suspend() const noexcept { return {}; }
  FinalAwaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { error_ = std::current_exception(); }

  template <class Awaitable>
  requires std::is_base_of_v<ActorAwaitable, std::remove_cvref_t<Awaitable>>
      AwaitByReference<std::remove_reference_t<Awaitable>> await_transform(Awaitable&& awaitable)
  const noexcept { return {awaitable}; }

  Activation& activation() const { return *activation_; }
  void set_activation(Activation& activation) { activation_ = &activation; }
  void set_awaiter(std::coroutine_handle<> awaiter) { awaiter_ = awaiter; }

 protected:
  void rethrow_if_failed() {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  Activation* activation_ = nullptr;
  std::coroutine_handle<> awaiter_;
  std::exception_ptr error_;
};

template <class T>
class TaskPromise : public TaskPromiseBase {
 public:
  Task<T> get_return_object();
  template <class U>
  requires std::is_convertible_v<U&&, T>
  void return_value(U&& value) { value_.emplace(std::forward<U>(value)); }
  T take() {
    rethrow_if_failed();
    REPRISE_CHECK(value_.has_value(), "a task's result was taken twice or before its end");
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class TaskPromise<void> : public TaskPromiseBase {
 public:
  Task<void> get_return_object();
  void return_void() {}
  void take() { rethrow_if_failed(); }
};

template <class T>
class [[nodiscard]] Task : public ActorAwaitable {
 public:
  using promise_type = TaskPromise<T>;
  using Handle = std::coroutine_handle<promise_type>;
  using Value = T;

  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  // -- awaiting: starts the task; resumes the awaiter, in the same turn, when it has ended
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> awaiter) {
    REPRISE_CHECK(handle_ && !handle_.done(), "a task was awaited twice or after it was moved from");
    Activation& activation = awaiter.promise().activation();
    handle_.promise().set_activation(activation);
    handle_.promise().set_awaiter(awaiter);
    activation.run_next(handle_);
  }
  T await_resume() { return handle_.promise().take(); }

  Handle handle() const { return handle_; }

 private:
  Handle handle_;
};

template <class T>
Task<T> TaskPromise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

inline Task<void> TaskPromise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

template <class T>
inline constexpr bool kIsTask = false;
template <class T>
inline constexpr bool kIsTask<Task<T>> = true;

}  // namespace reprise::runtime
