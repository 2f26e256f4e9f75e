#pragma once
// The class that actors derive from, and what they say of themselves. runtime/actor.h tells how to write one, and is
// what to include.
//
// Threading: as runtime/actor.h.

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
