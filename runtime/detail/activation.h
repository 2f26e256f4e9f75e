#pragma once
// One running coroutine of an actor: the chain of tasks from its root to the innermost, suspended one.
//
// Driven by a loop, not by symmetric transfer: a task that awaits another, or ends, stores the coroutine to
// run next and returns to the loop. So a million awaits in a row need no stack, even without optimization. A
// coroutine that waits for an outside event stores none, and the loop ends; a node (a reply, a wake-up)
// resumes it in a later turn.
//
// Owned by the cell. When the actor stops, it destroys suspended activations with all their frames; the
// awaitables then withdraw from what they waited for. Threading: the actor's executor only.

#include <coroutine>
#include <utility>

namespace reprise::runtime {

class Cell;

class Activation {
 public:
  enum class Role : unsigned char {
    kHandler,     // runs a message handler; counts against kConcurrentHandlers
    kBackground,  // started by Actor::launch(); runs beside the handlers
  };

  explicit Activation(Role role) : role_(role) {}
  virtual ~Activation() = default;
  Activation(const Activation&) = delete;
  Activation& operator=(const Activation&) = delete;

  /// Runs until the chain suspends or ends; returns whether it has ended.
  bool run(std::coroutine_handle<> handle) {
    next_ = handle;
    while (next_) std::exchange(next_, nullptr).resume();
    return done();
  }

  /// Sets the coroutine that run() resumes next.
  void run_next(std::coroutine_handle<> handle) { next_ = handle; }

  Cell& cell() const { return *cell_; }

  virtual std::coroutine_handle<> root() const = 0;

  /// After the end: delivers the result, or rethrows the exception.
  virtual void finish() = 0;

 private:
  friend class Cell;
  bool done() const { return root().done(); }

  Role role_;
  Cell* cell_ = nullptr;
  Activation* previous_ = nullptr;
  Activation* following_ = nullptr;
  std::coroutine_handle<> next_;
};

}  // namespace reprise::runtime
