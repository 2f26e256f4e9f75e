#pragma once
// One running coroutine of an actor: the chain of tasks from its root to the innermost one, which is
// suspended.
//
// A loop drives the chain instead of symmetric transfer: a task that awaits another, or ends, stores the
// handle of the coroutine to run next and returns to the loop. A million awaits in a row therefore need no
// stack, even without optimization. A coroutine that waits for an outside event stores no handle, and the
// loop ends; a node (a reply or a wake-up) resumes it later as a turn of the same actor.
//
// The cell owns its activations. When the actor stops, it destroys those still suspended, and with them all
// frames of the chain; their awaitables then withdraw from what they waited for. Threading: the actor's home
// only.

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

  /// Resumes `handle` and runs until the chain suspends or ends. Returns true if it has ended.
  bool run(std::coroutine_handle<> handle) {
    next_ = handle;
    while (next_) std::exchange(next_, nullptr).resume();
    return done();
  }

  /// Sets the coroutine that run() resumes next; called by a coroutine about to return to the loop.
  void run_next(std::coroutine_handle<> handle) { next_ = handle; }

  Cell& cell() const { return *cell_; }

  virtual std::coroutine_handle<> root() const = 0;

  /// Called once the root coroutine has ended: delivers its result, or rethrows its exception.
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
