#pragma once
// An executor: runs the turns of a set of actors, one turn at a time.
//
// This base class of the four kinds (a pool worker or an actor's own thread, runtime/detail/thread_executor.h; a host's
// io_context, runtime/interop/asio_executor.h; a simulation, runtime/testing/simulator.cc) has the inbox, the queue of ready actors, the timers, and run_round().
//
// Why no wake-up is lost: an executor with nothing to do announces sleep and then checks its inbox again; a sender
// pushes its node and then checks for sleep:
//     executor:    doorbell = asleep;  fence;  inbox empty? -> sleep
//     sender:  push;               fence;  doorbell asleep? -> wake
// Both fences are seq_cst, hence ordered: if the executor's is first, the sender sees `asleep`, otherwise the
// executor sees the node. The thread whose compare-and-swap turns `asleep` into `awake` wakes the executor, so that
// happens once. `closed` works likewise: a closing executor announces it, then empties the inbox; a sender that
// sees it empties the inbox itself. So every node is run or bounced.
//
// Ownership: reference-counted. Every cell holds its executor and every outlet its target, so an executor outlives all
// that can post to it.
//
// Threading: post(), enter() and statistics: any thread; all else: the thread running the executor.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/detail/cell.h"
#include "runtime/detail/node.h"
#include "runtime/detail/timer_wheel.h"

namespace reprise::runtime {

class SystemCore;

/// Inbound queue of an executor for nodes from other threads: a moodycamel::ConcurrentQueue, which is lock-free
/// and FIFO per producer only. Its producers are
///   - one Producer per sending executor, used only while that executor runs, so by one thread at a time with
///     synchronized hand-over: all sends of its actors keep their order;
///   - one implicit producer per plain thread that sends.
///
/// Threading: pop(): the executor; Producer::push(): the thread running the outlet's executor; all else: any thread.
/// empty() is a hint; see Executor.
class Inbox {
 public:
  class Producer;

  Inbox();
  ~Inbox();  // must be empty
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  void push(Node* node);

  /// Takes up to `most` nodes, from all producers in turn; returns their number, perhaps 0 while others push.
  std::size_t pop(Node** nodes, std::size_t most);

  /// As pop(), for an inbox whose executor has closed.
  std::size_t pop_unordered(Node** nodes, std::size_t most);

  bool empty() const;

 private:
  struct Queue;
  std::unique_ptr<Queue> queue_;
};

/// The producer token of one executor for one inbox. The inbox must outlive it.
class Inbox::Producer {
 public:
  explicit Producer(Inbox& inbox);
  ~Producer();
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

  void push(Node* node);

 private:
  struct Token;
  Queue& queue_;
  std::unique_ptr<Token> token_;
};

class Executor {
 public:
  /// How nodes reach the actors of an executor; kOwn: post() calls transport() for each.
  enum class Transport : std::uint8_t { kInbox, kOwn };

  explicit Executor(std::shared_ptr<SystemCore> core, Transport transport = Transport::kInbox);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void add_ref() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  // -- any thread

  /// The executor that runs on this thread; null on other threads.
  static Executor* current();

  SystemCore& core() const { return *core_; }
  std::uint32_t index() const { return index_; }

  /// Sends a node to its target, an actor of this executor that the caller keeps alive.
  void post(Node* node);

  /// Registers a new actor; returns false if the executor has closed.
  bool enter(Cell& cell);

  /// For tests: called before each announcement of sleep, by the thread that makes it; null: nothing. Relaxed:
  /// set while no executor runs that the test looks at.
  static inline std::atomic<void (*)()> before_sleep{nullptr};

  /// Calls `visit`, which must be brief, for each actor of this executor while holding register_mutex_.
  void for_each_resident(const std::function<void(Cell&)>& visit);
  std::size_t population() const { return population_.load(std::memory_order_relaxed); }
  std::uint32_t ready_actors() const { return ready_count_.load(std::memory_order_relaxed); }

  /// True if asleep with an empty inbox. If two checks find all executors idle and activity() unchanged, all were
  /// idle at one moment.
  virtual bool idle() const;
  std::uint64_t activity() const { return activity_.load(std::memory_order_seq_cst); }
  std::uint32_t suspended_handlers() const { return handlers_.load(std::memory_order_relaxed); }

  /// The running actor and the start of its slice, in ticks; 0 if none.
  struct Running {
    ActorId actor;
    std::uint64_t since;
  };
  Running running() const {
    return {running_actor_.load(std::memory_order_relaxed), running_since_.load(std::memory_order_relaxed)};
  }

  // -- called by the system

  /// An actor was registered; an own thread starts with its first.
  virtual void actor_ready(Cell&) {}
  /// Asks the executor to end once it has no actors left.
  virtual void finish() = 0;
  /// Called while the system waits for actors to stop: runs rounds if no thread runs this executor any more.
  virtual void help() {}
  virtual bool wait_ended(TimePoint deadline) = 0;
  /// Called after wait_ended(): releases the thread or loop, or leaves it behind, alive, if it has not ended.
  virtual void join_or_leave() = 0;

  // -- called by the thread that runs the executor

  void make_ready(Cell& cell);
  void leave(Cell& cell);
  void arm(TimerEntry& timer, TimePoint deadline);
  void count_handlers(int change);

 protected:
  enum class Sleep { kAsleep, kStayAwake, kWoken };

  virtual ~Executor();

  /// Makes the executor run again. Called by the thread that ended an announced sleep.
  virtual void wake() = 0;

  /// With Transport::kOwn: takes a node that owns a reference to its target, to deliver() or bounce() it later.
  virtual void transport(Node* node);
  static void deliver(Node* node);
  static void bounce(Node* node);

  /// Makes this executor current() for its lifetime.
  class Presence {
   public:
    explicit Presence(Executor& executor);
    ~Presence();

   private:
    Executor* outer_;
  };

  /// Processes some of the work; returns false if there was none. Requires a Presence.
  bool run_round();

  /// kAsleep: nothing to do. kStayAwake: work has arrived. kWoken: likewise, and a sender calls wake() for
  /// it.
  Sleep announce_sleep();
  /// Withdraws the announcement. Returns false if a sender did so already and calls wake().
  bool cancel_sleep();

  /// Runs one turn of the ready actor at `position` of the queue, which must be below ready_actors(). Requires a
  /// Presence.
  void run_turn_of(std::uint32_t position);
  /// The actor at `position` of the queue of ready actors.
  const Cell& ready_at(std::uint32_t position) const;
  /// Requires a Presence.
  void fire_timers() {
    if (!timers_.empty()) timers_.advance(Clock::now());
  }

  bool inbox_empty() const { return inbox_.empty(); }
  TimePoint next_timer() const { return timers_.next_wake(); }

  /// Refuses new actors if none is left; returns whether it does.
  bool try_seal();
  /// After try_seal(): bounces all later nodes.
  void close();

 private:
  enum class Doorbell : std::uint8_t { kAwake, kAsleep, kClosed };
  static constexpr std::size_t kInboxBatch = 128;
  static constexpr int kCellsPerRound = 32;  // between two checks of inbox and timers

  bool take_in();
  void run_ready();
  void ring();
  void bounce_inbox();
  Inbox::Producer& outlet_to(Executor& target);
  Cell& take_ready(std::uint32_t position);

  struct PeerQueue;  // an Producer and its target

  const std::shared_ptr<SystemCore> core_;
  const std::uint32_t index_;  // small and dense within the process; reused after the executor ends
  const Transport transport_;
  Inbox inbox_;

  // Ordered by the fences (see above), hence relaxed, except for the compare-and-swap that selects the waker.
  std::atomic<Doorbell> doorbell_{Doorbell::kAwake};
  std::atomic<std::uint32_t> references_{1};
  // Statistics, written by the executor alone.
  std::atomic<std::uint64_t> activity_{0};
  std::atomic<std::uint32_t> ready_count_{0};
  std::atomic<std::uint32_t> handlers_{0};
  std::atomic<ActorId> running_actor_{0};
  std::atomic<std::uint64_t> running_since_{0};

  std::vector<std::unique_ptr<PeerQueue>> roads_;  // indexed by the target's index()
  Cell* first_ready_ = nullptr;
  Cell* last_ready_ = nullptr;
  TimerWheel timers_;

  static constexpr traces::ZoneSite kRegisterLock{"lock: the actors of an executor"};
  traces::Mutex register_mutex_{kRegisterLock};
  Cell* residents_ = nullptr;               // guarded by register_mutex_
  bool sealed_ = false;                     // guarded by register_mutex_
  std::atomic<std::size_t> population_{0};  // written under register_mutex_; relaxed reads for reports
};

class ExecutorPtr {
 public:
  ExecutorPtr() = default;
  /// Takes over a reference.
  static ExecutorPtr adopt(Executor* executor) {
    ExecutorPtr pointer;
    pointer.executor_ = executor;
    return pointer;
  }
  explicit ExecutorPtr(Executor* executor) : executor_(executor) {
    if (executor_ != nullptr) executor_->add_ref();
  }
  ExecutorPtr(const ExecutorPtr& other) : ExecutorPtr(other.executor_) {}
  ExecutorPtr(ExecutorPtr&& other) noexcept : executor_(std::exchange(other.executor_, nullptr)) {}
  ExecutorPtr& operator=(ExecutorPtr other) noexcept {
    std::swap(executor_, other.executor_);
    return *this;
  }
  ~ExecutorPtr() {
    if (executor_ != nullptr) executor_->release();
  }

  Executor* get() const { return executor_; }
  Executor* operator->() const { return executor_; }
  Executor& operator*() const { return *executor_; }
  explicit operator bool() const { return executor_ != nullptr; }

 private:
  Executor* executor_ = nullptr;
};

}  // namespace reprise::runtime
