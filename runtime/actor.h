#pragma once
// Writing an actor.
//
//   class Counter : public Actor {
//    public:
//     using Accepts = Messages<Add, Total>;
//     void on(Add add) { sum_ += add.amount; }
//     int on(Total) { return sum_; }
//    private:
//     int sum_ = 0;
//   };
//
// A handler is `on(M)`, with M by value, const reference or rvalue reference, and returns
//   void, Task<void>          for a message that is told
//   Reply, Task<Reply>        for a question, or Result<Reply> of either where it may fail; or it takes
//   ReplyTo<Reply> as
//                             second parameter, returns void or Task<void>, and answers when it likes
// Work that goes on for long is launch()ed: a suspended handler counts as undone when the system stops.
// Turns never overlap. What a class may declare besides:
//   static constexpr MailboxSpec kMailbox{...};             capacity and overload policy (runtime/mailbox.h)
//   static constexpr std::uint32_t kConcurrentHandlers = n;  how many coroutine handlers may be suspended at
//   once, 1 by
//              default: the next message waits until the handler has ended (a serial actor). With more, the
//              actor is re-entrant: its state may change at every co_await.
//   static constexpr const char* kName = "...";             for people and the profiler; the type's name by
//   default void on_start() / Task<void> on_start()                 first turn, on the home; messages wait
//   until it has ended void on_stop()                                          last turn of an orderly stop;
//   not called after a failure
// An exception that leaves any of these fails the actor (runtime/supervision.h).
//
// Threading: the constructor runs on the spawner's thread, everything else on the actor's home. A constructor
// only stores its arguments: what needs the actor's reference, children or turns belongs into on_start().

#include <concepts>
#include <cstdint>
#include <new>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "runtime/actor_factory.h"
#include "runtime/ref.h"
#include "runtime/task.h"

namespace reprise::runtime {

class SystemCore;

namespace actor_detail {
template <class Accepted>
struct RefFor;
template <class... Ms>
struct RefFor<Messages<Ms...>> {
  using Type = Ref<Ms...>;
};
}  // namespace actor_detail

/// The full reference to an actor class.
template <class A>
using RefOf = typename actor_detail::RefFor<typename A::Accepts>::Type;

/// Where an actor lives, for good.
struct Placement {
  enum class Kind : std::uint8_t {
    kPool,       // a worker of the pool, chosen by load
    kNear,       // where the spawning actor lives: sends between the two need no atomic
    kOwnThread,  // a thread that this actor has for itself: may block
    kHome,       // `home`: a host's io_context (runtime/asio_home.h)
  };
  Kind kind = Kind::kPool;
  HomePtr home{};

  static Placement pool() { return {}; }
  static Placement near() { return {.kind = Kind::kNear}; }
  static Placement own_thread() { return {.kind = Kind::kOwnThread}; }
  static Placement on(HomePtr home) { return {.kind = Kind::kHome, .home = std::move(home)}; }
};

struct SpawnOptions {
  std::string name{};  // kept for ever (runtime/names.h); empty: the class's
  Placement placement{};
  OnFailure on_failure{};
};

/// Base of all actors: what an actor can do to itself.
class Actor {
 public:
  Actor();
  virtual ~Actor() = default;
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  /// The runtime's side of this actor. Not in the constructor: nobody may know an actor before it is whole.
  Cell& cell() const {
    require_constructed();
    return *cell_;
  }

 protected:
  ActorId id() const { return cell_->id(); }

  /// Stops this actor after the present turn.
  void stop();

  /// Runs a coroutine beside the handlers, from a turn of its own; it ends with the actor at the latest.
  void launch(Task<void> task);

  /// Spawns a child: it stops when this actor stops or restarts, and its failures may escalate to it.
  template <class A, class... Args>
  RefOf<A> spawn(SpawnOptions options, Args&&... args);

 private:
  void require_constructed() const;

  Cell* const cell_;
};

/// The reference to oneself: `self(*this)`.
template <class A>
RefOf<A> self(A& actor) {
  return RefOf<A>(CellPtr(&static_cast<Actor&>(actor).cell()));
}

/// Has `watcher` sent one Down when the actor behind `ref` has stopped.
template <class A, class... Ms>
void watch(A& watcher, const Ref<Ms...>& ref) {
  const Ref<Down> takes_down = self(watcher);  // does not compile unless the watcher takes Down
  ref.cell()->add_watcher(*takes_down.cell());
}

}  // namespace reprise::runtime

#include "runtime/dispatch.h"
#include "runtime/spawn.h"
