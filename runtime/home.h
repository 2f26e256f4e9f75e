#pragma once
// A home: where a set of actors lives and runs, one turn at a time.
//
// Three kinds (runtime/thread_home.h, runtime/asio_home.h): a worker of the pool, a thread of one actor's
// own, and a host's io_context. This class is what they share: the inbox, the list of actors that have
// something to do, the timers, and the round in which all that is worked off.
//
// No lost wake-up. A home that finds nothing to do announces sleep, then looks once more; a sender pushes its
// node, then looks whether sleep was announced:
//     home:   doorbell = asleep;  fence;  inbox empty? -> sleep          sender:  push;  fence;  doorbell
//     asleep? -> wake
// Both fences are seq_cst, so one of the two comes first in their single order. If the home's does, the
// sender's look comes after it and sees `asleep`; if the sender's does, the home's look sees the node. In
// neither order do both miss. Who turns `asleep` into `awake` (one compare-and-swap) is who wakes: once.
// `closed` works the same way: a closing home announces it and then empties the inbox; a sender that sees it
// empties the inbox itself. So no node is ever left behind, and whoever waits for it is told.
//
// Ownership: counted; every cell holds its home, every outlet its target, so a home outlives whatever may
// post to it. Threading: post(), enter(), stats: any thread. The rest: whoever runs the home.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cell.h"
#include "runtime/node.h"
#include "runtime/timer_wheel.h"

namespace reprise::runtime {

class SystemCore;

/// The way into a home from other threads: a moodycamel queue of nodes.
///
/// moodycamel::ConcurrentQueue is lock-free and keeps order within one *producer*: nodes of one producer come
/// out in the order in which they went in; between producers there is no order. The producers here are
///   - one Outlet for each sending home, used only while that home runs (so by one thread at a time, and each
///     hand-over of a home between threads is a synchronisation): all sends of all its actors, in their order;
///   - one implicit producer for each plain thread that sends.
///
/// Threading: push(), pop_unordered(), empty(): any thread. pop(): the home. Outlet::push(): the thread that
/// runs the outlet's home. empty() is a hint; see Home for what may be concluded from it.
class Inbox {
 public:
  class Outlet;

  Inbox();
  ~Inbox();  // must be empty
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  void push(Node* node);

  /// Takes up to `most` nodes, from all producers in turn. How many it took; 0 may mean that others are
  /// pushing.
  std::size_t pop(Node** nodes, std::size_t most);

  /// The same for an inbox whose home has closed.
  std::size_t pop_unordered(Node** nodes, std::size_t most);

  bool empty() const;

 private:
  struct Queue;
  std::unique_ptr<Queue> queue_;
};

/// The producer of one home towards one inbox; must end before the inbox does.
class Inbox::Outlet {
 public:
  explicit Outlet(Inbox& inbox);
  ~Outlet();
  Outlet(const Outlet&) = delete;
  Outlet& operator=(const Outlet&) = delete;

  void push(Node* node);

 private:
  struct Token;
  Queue& queue_;
  std::unique_ptr<Token> token_;
};

class Home {
 public:
  explicit Home(std::shared_ptr<SystemCore> core);
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;

  void add_ref() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    // acq_rel: as Cell::release.
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  // -- any thread

  /// The home that runs on this thread; null on other threads.
  static Home* current();

  SystemCore& core() const { return *core_; }
  std::uint32_t index() const { return index_; }

  /// Sends a node to its target, which must live here. The caller keeps the target alive during the call.
  void post(Node* node);

  /// Registers a new actor; false if the home has closed.
  bool enter(Cell& cell);

  /// Calls `visit` for each actor that lives here, with the register locked: be brief.
  void for_each_resident(const std::function<void(Cell&)>& visit);
  std::size_t population() const { return population_.load(std::memory_order_relaxed); }
  std::uint32_t ready_actors() const { return ready_count_.load(std::memory_order_relaxed); }

  /// Has announced sleep, with nothing in its inbox. Together with an unchanged activity() between two looks
  /// at all homes this means that all were idle at one moment.
  bool idle() const;
  std::uint64_t activity() const { return activity_.load(std::memory_order_seq_cst); }
  std::uint32_t suspended_handlers() const { return handlers_.load(std::memory_order_relaxed); }

  /// Who runs now, and since when in ticks; 0 if nobody.
  struct Running {
    ActorId actor;
    std::uint64_t since;
  };
  Running running() const {
    return {running_actor_.load(std::memory_order_relaxed), running_since_.load(std::memory_order_relaxed)};
  }

  // -- the system's

  /// An actor that entered may run: an own thread starts with its first.
  virtual void actor_ready(Cell&) {}
  /// Ends once nobody lives here.
  virtual void finish() = 0;
  /// While the system waits for actors to stop: works for a home that nobody runs any more.
  virtual void help() {}
  virtual bool wait_ended(TimePoint deadline) = 0;
  /// After wait_ended(): gives back what the home runs on. If it has not ended, leaves that behind, alive.
  virtual void join_or_leave() = 0;

  // -- whoever runs the home

  void make_ready(Cell& cell);
  void leave(Cell& cell);
  void arm(TimerEntry& timer, TimePoint deadline);
  void count_handlers(int change);

 protected:
  enum class Sleep { kAsleep, kStayAwake, kWoken };

  virtual ~Home();

  /// The sleep that was announced is over. Called once for each announcement at most, by a sender.
  virtual void wake() = 0;

  /// Marks this home as the one that runs on this thread, for the duration.
  class Presence {
   public:
    explicit Presence(Home& home);
    ~Presence();

   private:
    Home* outer_;
  };

  /// Works off some of what there is. Returns whether there was anything. Requires a Presence.
  bool run_round();

  /// kAsleep: announced, nothing to do. kStayAwake: something has come. kWoken: something has come, and
  /// wake() was or will be called for it.
  Sleep announce_sleep();
  /// Takes the announcement back; false if a sender did so and calls wake().
  bool cancel_sleep();

  bool inbox_empty() const { return inbox_.empty(); }
  TimePoint next_timer() const { return timers_.next_wake(); }

  /// If nobody lives here (any more), closes the home for newcomers.
  bool try_seal();
  /// After try_seal(): what arrives from now on bounces.
  void close();

 private:
  enum class Doorbell : std::uint8_t { kAwake, kAsleep, kClosed };
  static constexpr std::size_t kInboxBatch = 128;
  static constexpr int kCellsPerRound = 32;  // between two looks at the inbox and the timers

  bool take_in();
  void run_ready();
  void ring();
  void bounce_inbox();
  Inbox::Outlet& outlet_to(Home& target);

  struct Road;  // an outlet and the home that it leads to

  const std::shared_ptr<SystemCore> core_;
  const std::uint32_t index_;  // small and dense over the process; free again when the home ends
  Inbox inbox_;

  // See above; the fences order it, so its own accesses are relaxed, but for the swap that hands the wake-up
  // over.
  std::atomic<Doorbell> doorbell_{Doorbell::kAwake};
  std::atomic<std::uint32_t> references_{1};
  // Reports, written by the home alone.
  std::atomic<std::uint64_t> activity_{0};
  std::atomic<std::uint32_t> ready_count_{0};
  std::atomic<std::uint32_t> handlers_{0};
  std::atomic<ActorId> running_actor_{0};
  std::atomic<std::uint64_t> running_since_{0};

  std::vector<std::unique_ptr<Road>> roads_;  // by index of the target
  Cell* first_ready_ = nullptr;
  Cell* last_ready_ = nullptr;
  TimerWheel timers_;

  static constexpr traces::ZoneSite kRegisterLock{"lock: the actors of a home"};
  traces::Mutex register_mutex_{kRegisterLock};
  Cell* residents_ = nullptr;               // guarded by register_mutex_
  bool sealed_ = false;                     // guarded by register_mutex_
  std::atomic<std::size_t> population_{0};  // written under register_mutex_; relaxed reads are reports
};

/// Shared ownership of a home.
class HomePtr {
 public:
  HomePtr() = default;
  /// Takes over one reference.
  static HomePtr adopt(Home* home) {
    HomePtr pointer;
    pointer.home_ = home;
    return pointer;
  }
  explicit HomePtr(Home* home) : home_(home) {
    if (home_ != nullptr) home_->add_ref();
  }
  HomePtr(const HomePtr& other) : HomePtr(other.home_) {}
  HomePtr(HomePtr&& other) noexcept : home_(std::exchange(other.home_, nullptr)) {}
  HomePtr& operator=(HomePtr other) noexcept {
    std::swap(home_, other.home_);
    return *this;
  }
  ~HomePtr() {
    if (home_ != nullptr) home_->release();
  }

  Home* get() const { return home_; }
  Home* operator->() const { return home_; }
  Home& operator*() const { return *home_; }
  explicit operator bool() const { return home_ != nullptr; }

 private:
  Home* home_ = nullptr;
};

}  // namespace reprise::runtime
