#pragma once
// The runtime's side of one actor: identity, mailbox, turns, running coroutines, lifecycle.
//
// States: kStarting -> kRunning -> kStopping -> kStopped; a restart goes from kRunning through kRestarting
// back.
//   kStopping    takes no messages; waits for its children to stop
//   kStopped     the actor object is destroyed; the cell remains while a Ref exists, and bounces messages
// A turn runs one node; turns of one actor never overlap. An exception that leaves a turn ends the actor or
// restarts it (runtime/supervision.h), never the thread.
//
// Ownership: reference-counted; a cell that has not stopped holds a reference to itself. The list of
// children, with their sibling links, belongs to the parent's executor.
//
// Threading: const identity, add_ref/release, life(), counters, admit(): any thread. All else: the actor's
// executor.

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "runtime/detail/activation.h"
#include "runtime/detail/mailbox.h"
#include "runtime/supervision.h"

namespace reprise::runtime {

class Actor;
class Executor;
struct CellLinks;
class Cell;

using ActorId = std::uint64_t;

/// Static description of an actor class; one constant per class (runtime/actor.h).
struct ActorType {
  const char* name;
  MailboxSpec mailbox;
  std::uint32_t max_handlers;  // max coroutine handlers suspended at once; 1: a serial actor
  void (*dispatch)(Cell&, Node*);
  void (*on_start)(Cell&);  // null: none
  void (*on_stop)(Cell&);   // null: none
  void (*destroy)(Actor*);
};

/// Re-creates the actor object on restart, on the actor's executor.
class ActorFactory {
 public:
  virtual ~ActorFactory() = default;
  /// Constructs in cell.actor_storage(). Throws what the constructor throws.
  virtual Actor* make(Cell& cell) = 0;
};

class Cell {
 public:
  enum class Life : std::uint8_t { kStarting, kRunning, kRestarting, kStopping, kStopped };

  // -- any thread

  ActorId id() const { return id_; }
  const char* name() const { return name_; }
  const ActorType& type() const { return type_; }
  Executor& executor() const { return *executor_; }
  Cell* parent() const { return parent_; }
  Life life() const { return life_.load(std::memory_order_relaxed); }
  Mailbox& mailbox() { return mailbox_; }
  const Mailbox& mailbox() const { return mailbox_; }
  std::uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }
  std::uint64_t busy_ticks() const { return busy_ticks_.load(std::memory_order_relaxed); }
  std::uint32_t suspended_handlers() const { return handlers_.load(std::memory_order_relaxed); }

  void add_ref() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    // acq_rel: the destroying thread must see the accesses that preceded the other releases.
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(this);
  }

  /// Puts a node into the mailbox if called on this executor, else into the executor's inbox.
  void post(Node* node);

  /// Stops the actor after its current turn; waiting messages bounce.
  void request_stop(StopReason reason = StopReason::kStopped);

  bool stop_requested() const { return stop_requested_.load(std::memory_order_relaxed); }

  /// Sends `watcher`, which must accept Down, one Down when this actor has stopped.
  void add_watcher(Cell& watcher);

  // -- the actor's executor

  /// The cell whose turn runs on this thread; null outside turns.
  static Cell* current();

  Actor* actor() const { return actor_; }

  /// Puts an arriving node into the mailbox, or bounces it.
  void accept(Node* node);

  static constexpr int kQuantum = 64;  // max turns before the executor's other actors get theirs

  /// Runs up to `most_turns` turns. True: the actor has stopped, and the caller drops the cell's reference to
  /// itself.
  [[nodiscard]] bool run(int most_turns);

  /// Takes ownership of a coroutine and runs it until it suspends.
  void begin(std::unique_ptr<Activation> activation);
  void resume(Activation& activation, std::coroutine_handle<> where);

  void stop_after_turn() { stop_requested_.store(true, std::memory_order_relaxed); }
  /// Handles an exception that left the current turn.
  void fail(std::exception_ptr error);

  // -- spawning and supervision (the second half of runtime/detail/cell.cc)

  struct Birth {
    const ActorType& type;
    Executor& executor;
    Cell* parent;
    const char* name;
    OnFailure on_failure;
    std::size_t actor_bytes;
    std::size_t actor_alignment;
  };
  /// Returns a cell without an actor object; the caller owns its only reference.
  static Cell* create(const Birth& birth);
  static void destroy(Cell* cell);
  void* actor_storage() const;
  void set_actor(Actor* actor) { actor_ = actor; }
  void set_factory(std::unique_ptr<ActorFactory> factory);
  /// Registers the actor with its executor; false if that has closed. Call once, on the parent's executor (any thread
  /// for an actor without parent), before another thread has a reference.
  [[nodiscard]] bool launch();

  void start();
  /// Called when on_start has ended; messages are taken from then on.
  void started() { life_.store(Life::kRunning, std::memory_order_relaxed); }
  void begin_stop(StopReason reason, std::string why);
  void child_ended(Cell& child);
  void child_escalated(const std::string& why);
  void continue_restart();

 private:
  friend class Executor;

  explicit Cell(const Birth& birth, std::size_t allocated);
  ~Cell();

  bool takes_messages() const {
    return life_.load(std::memory_order_relaxed) == Life::kRunning &&
           handlers_.load(std::memory_order_relaxed) < type_.max_handlers;
  }
  friend class CurrentCell;

  void run_traced(Node* node);
  traces::Track* borrow_track();  // null: all tracks are in use
  void give_back_track();
  void schedule();
  void drop_activation(Activation& activation);
  void drop_all_activations();
  void finish_activation(Activation& activation);
  void stop_children();
  void continue_ending();
  void finish_stop();
  void restart();
  CellLinks& links();

  const ActorType& type_;
  Executor* const executor_;
  Cell* const parent_;
  const char* const name_;
  const ActorId id_;
  const std::uint32_t allocated_;  // cell and actor
  Actor* actor_ = nullptr;

  // Only counts; release() has the ordering.
  std::atomic<std::uint32_t> references_{1};
  // Written by the executor; relaxed reads elsewhere are reports. The mailbox decides on admission.
  std::atomic<Life> life_{Life::kStarting};
  std::atomic<std::uint64_t> turns_{0};
  std::atomic<std::uint64_t> busy_ticks_{0};
  std::atomic<std::uint32_t> handlers_{0};
  // Checked after every turn. Relaxed: the control node sent with it guarantees that the stop is seen; the
  // flag only makes it sooner.
  std::atomic<bool> stop_requested_{false};
  std::atomic<StopReason> requested_reason_{StopReason::kStopped};  // like stop_requested_

  // Why the actor stops. Written once, when it begins to stop: a later request must not hide a failure.
  StopReason stop_reason_ = StopReason::kStopped;
  bool scheduled_ = false;
  int watchful_ = 0;  // turns left with a clock check after each
  OnFailure on_failure_;
  Cell* next_ready_ = nullptr;
  Activation* activations_ = nullptr;
  Mailbox mailbox_;
  std::unique_ptr<CellLinks> links_;               // children, watchers, restarts; allocated on first use
  std::unique_ptr<const std::string> last_words_;  // details of why the actor stopped; null: none
  Cell* previous_sibling_ = nullptr;
  Cell* next_sibling_ = nullptr;
  Cell* previous_resident_ = nullptr;  // guarded by the executor's register_mutex_, like next_resident_
  Cell* next_resident_ = nullptr;
};

class CellPtr {
 public:
  CellPtr() = default;
  /// Takes over a reference.
  static CellPtr adopt(Cell* cell) {
    CellPtr pointer;
    pointer.cell_ = cell;
    return pointer;
  }
  explicit CellPtr(Cell* cell) : cell_(cell) {
    if (cell_ != nullptr) cell_->add_ref();
  }
  CellPtr(const CellPtr& other) : CellPtr(other.cell_) {}
  CellPtr(CellPtr&& other) noexcept : cell_(std::exchange(other.cell_, nullptr)) {}
  CellPtr& operator=(CellPtr other) noexcept {
    std::swap(cell_, other.cell_);
    return *this;
  }
  ~CellPtr() {
    if (cell_ != nullptr) cell_->release();
  }

  Cell* get() const { return cell_; }
  Cell* operator->() const { return cell_; }
  Cell& operator*() const { return *cell_; }
  explicit operator bool() const { return cell_ != nullptr; }
  bool operator==(const CellPtr&) const = default;

 private:
  Cell* cell_ = nullptr;
};

}  // namespace reprise::runtime
