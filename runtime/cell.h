#pragma once
// The runtime's side of one actor: identity, mailbox, turns, coroutines in progress, life and death.
//
// Life:  kStarting -> kRunning -> kStopping -> kStopped, with kRestarting between kRunning and kRunning.
//   kStopping    takes no messages, waits for its children to stop
//   kStopped     the actor object is destroyed; the cell stays, as a stump that bounces, while someone holds
//   a Ref
// A turn is the running of one node. Turns of one actor never overlap. An exception that leaves a turn ends
// the actor (or restarts it, runtime/supervision.h), never the thread.
//
// Ownership: references are counted; a cell that has not stopped holds one on itself. Children are listed by,
// and their sibling links belong to, the parent's home. Threading: const identity, add_ref/release, life(),
// counters, admit(): any thread. All else: the actor's home.

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "runtime/activation.h"
#include "runtime/mailbox.h"
#include "runtime/supervision.h"

namespace reprise::runtime {

class Actor;
class Home;
struct CellLinks;
class Cell;

using ActorId = std::uint64_t;

/// What the runtime knows of an actor class; one constant a class, made by runtime/actor.h.
struct ActorType {
  const char* name;
  MailboxSpec mailbox;
  std::uint32_t most_handlers;  // suspended at once; 1 for a serial actor
  void (*dispatch)(Cell&, Node*);
  void (*on_start)(Cell&);  // null if the class has none
  void (*on_stop)(Cell&);   // null if the class has none
  void (*destroy)(Actor*);
};

/// Makes an actor object in its cell: when it is spawned, and again when it is restarted. The first time on the spawner's
/// thread, on the actor's home afterwards.
class ActorFactory {
 public:
  virtual ~ActorFactory() = default;
  /// In cell.actor_storage(). Throws what the constructor throws.
  virtual Actor* make(Cell& cell) = 0;
};

class Cell {
 public:
  enum class Life : std::uint8_t { kStarting, kRunning, kRestarting, kStopping, kStopped };

  // -- any thread

  ActorId id() const { return id_; }
  const char* name() const { return name_; }
  const ActorType& type() const { return type_; }
  Home& home() const { return *home_; }
  Cell* parent() const { return parent_; }
  Life life() const { return life_.load(std::memory_order_relaxed); }
  Mailbox& mailbox() { return mailbox_; }
  const Mailbox& mailbox() const { return mailbox_; }
  std::uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }
  std::uint64_t busy_ticks() const { return busy_ticks_.load(std::memory_order_relaxed); }
  std::uint32_t suspended_handlers() const { return handlers_.load(std::memory_order_relaxed); }

  void add_ref() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    // acq_rel: whoever frees it must see what the others did with it before they let go.
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(this);
  }

  /// Sends a node: straight into the mailbox if the caller runs on this home, through the home's inbox
  /// otherwise.
  void post(Node* node);

  /// Asks the actor to stop after the turn in progress; what waits in its mailbox bounces.
  void request_stop(StopReason reason = StopReason::kStopped);

  bool stop_requested() const { return stop_requested_.load(std::memory_order_relaxed); }

  /// Sends `watcher`, which takes Down, one when this actor has stopped.
  void add_watcher(Cell& watcher);

  // -- the actor's home

  /// The cell whose turn runs on this thread; null outside turns.
  static Cell* current();

  Actor* actor() const { return actor_; }

  /// A node arrives. Consumes it.
  void accept(Node* node);

  /// A few turns. Returns whether the actor has stopped: then the caller drops the cell's own reference.
  [[nodiscard]] bool run();

  /// Takes over a coroutine and runs it to its first wait.
  void begin(std::unique_ptr<Activation> activation);
  void resume(Activation& activation, std::coroutine_handle<> where);

  /// Stops after the present turn.
  void stop_after_turn() { stop_requested_.store(true, std::memory_order_relaxed); }
  /// The present turn ended with an exception.
  void fail(std::exception_ptr error);

  // -- spawning and supervision (the second half of runtime/cell.cc)

  struct Birth {
    const ActorType& type;
    Home& home;
    Cell* parent;
    const char* name;
    OnFailure on_failure;
    std::size_t actor_bytes;
    std::size_t actor_alignment;
  };
  /// A cell without its actor. The caller holds the one reference.
  static Cell* create(const Birth& birth);
  static void destroy(Cell* cell);
  void* actor_storage() const;
  void set_actor(Actor* actor) { actor_ = actor; }
  /// Makes the actor anew in actor_storage() when it is restarted.
  void set_factory(std::unique_ptr<ActorFactory> factory);
  /// From the parent's home, or for an actor without parent from any thread, once, while nobody else has a
  /// reference: enters the actor into its home. False if that has closed.
  [[nodiscard]] bool launch();

  void start();
  /// on_start has ended: messages are taken from now on.
  void started() { life_.store(Life::kRunning, std::memory_order_relaxed); }
  void begin_stop(StopReason reason, std::string why);
  void child_ended(Cell& child);
  void child_escalated(const std::string& why);
  void continue_restart();

 private:
  friend class Home;

  explicit Cell(const Birth& birth, std::size_t allocated);
  ~Cell();

  bool takes_messages() const {
    return life_.load(std::memory_order_relaxed) == Life::kRunning &&
           handlers_.load(std::memory_order_relaxed) < type_.most_handlers;
  }
  friend class CurrentCell;

  void run_traced(Node* node);
  traces::Track* borrow_track();  // null: none is left
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
  Home* const home_;
  Cell* const parent_;
  const char* const name_;
  const ActorId id_;
  const std::uint32_t allocated_;  // bytes, cell and actor together
  Actor* actor_ = nullptr;

  // Count only; release() says what orders the end.
  std::atomic<std::uint32_t> references_{1};
  // Written by the home, read elsewhere as a report; relaxed, since the mailbox decides who is admitted.
  std::atomic<Life> life_{Life::kStarting};
  std::atomic<std::uint64_t> turns_{0};
  std::atomic<std::uint64_t> busy_ticks_{0};
  std::atomic<std::uint32_t> handlers_{0};
  // Set by whoever asks the actor to stop, looked at after every turn. Relaxed: the control node that is sent
  // besides makes sure that it is seen; this only makes it sooner.
  std::atomic<bool> stop_requested_{false};
  std::atomic<StopReason> stop_reason_{StopReason::kStopped};

  bool scheduled_ = false;
  int watchful_ = 0;  // turns for which each is timed: some of the last ones were long
  OnFailure on_failure_;
  Cell* next_ready_ = nullptr;
  Activation* activations_ = nullptr;
  Mailbox mailbox_;
  std::unique_ptr<CellLinks> links_;  // made when first needed: children, watchers, restarts
  std::unique_ptr<const std::string>
      last_words_;  // why it stopped, where there is more to say than the reason
  Cell* previous_sibling_ = nullptr;
  Cell* next_sibling_ = nullptr;
  Cell* previous_resident_ = nullptr;  // guarded by the home's register
  Cell* next_resident_ = nullptr;
};

/// Shared ownership of a cell.
class CellPtr {
 public:
  CellPtr() = default;
  /// Takes over one reference.
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
