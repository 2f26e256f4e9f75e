#pragma once
// One coroutine of an actor in progress: the chain of tasks from its root to the place where it waits.
//
// The chain is driven by a loop, not by symmetric transfer: a task that awaits another, or ends, only names
// the coroutine to run next, returns, and the loop resumes it. So a million awaits in a row need no stack,
// whatever the compiler's optimiser does. A coroutine that waits for something outside names nothing, and the
// loop ends; a node (a reply, a wake-up) starts it again later, as a turn of the same actor.
//
// Ownership: the cell owns its activations and destroys those that are still suspended when the actor stops,
// which destroys every frame of the chain, and with them the awaitables, which then withdraw from what they
// waited for. Threading: the actor's home only.

#include <coroutine>
#include <utility>

namespace reprise::runtime {

class Cell;

class Activation {
 public:
  enum class Role : unsigned char {
    kHandler,     // handles a message: counts as "a handler is suspended"
    kBackground,  // launched by the actor: runs beside its handlers
  };

  explicit Activation(Role role) : role_(role) {}
  virtual ~Activation() = default;
  Activation(const Activation&) = delete;
  Activation& operator=(const Activation&) = delete;

  /// Runs from `handle` until the chain waits or ends. Returns whether it has ended.
  bool run(std::coroutine_handle<> handle) {
    next_ = handle;
    while (next_) std::exchange(next_, nullptr).resume();
    return done();
  }

  /// Named by a coroutine that is about to return to the loop.
  void run_next(std::coroutine_handle<> handle) { next_ = handle; }

  Cell& cell() const { return *cell_; }

  virtual std::coroutine_handle<> root() const = 0;

  /// After the end: hands the result over, or throws what the coroutine threw.
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
