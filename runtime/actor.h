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
//   Reply, Task<Reply>        for a question, or Result<Reply> of either where it may fail; or it takes ReplyTo<Reply>
//                             as second parameter, returns void or Task<void>, and answers when it likes
// Work that goes on for long is launch()ed: a suspended handler counts as undone when the system stops.
// Turns never overlap. What a class may declare besides:
//   static constexpr MailboxSpec kMailbox{...}               capacity and overload policy (runtime/mailbox.h)
//   static constexpr std::uint32_t kConcurrentHandlers = n   how many coroutine handlers may be suspended at once, 1 by
//                                                            default: the next message waits until the handler has
//                                                            ended (a serial actor). With more, the actor is
//                                                            re-entrant: its state may change at every co_await.
//   static constexpr const char* kName = "..."               for people and the profiler; the type's name by default
//   void on_start() / Task<void> on_start()                  first turn, on the home; messages wait until it has ended
//   void on_stop()                                           last turn of an orderly stop; not called after a failure
// An exception that leaves any of these fails the actor (runtime/supervision.h).
//
// Threading: the constructor runs on the spawner's thread, everything else on the actor's home. A constructor
// only stores its arguments: what needs the actor's reference, children or turns belongs into on_start().

#include <concepts>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "runtime/misuse.h"
#include "runtime/names.h"
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

/// Thrown by spawn() when the system, or the home that was asked for, is stopping.
class SystemStopped : public std::runtime_error {
 public:
  SystemStopped() : std::runtime_error("the actor system is stopping") {}
};

namespace actor_detail {

// -- from a node to the handler of an actor class, on the actor's home

template <class A, class M>
concept AnswersLater = Question<M> && requires(A& actor, M message, ReplyTo<typename M::Reply> reply) {
  actor.on(std::move(message), std::move(reply));
};
template <class A, class M>
concept Handles = AnswersLater<A, M> || requires(A& actor, M message) {
  actor.on(std::move(message));
};

/// What a handler without ReplyTo returns, the value in a Task<> or the plain one, is the answer to M.
template <class Value, class M>
struct IsReply : std::true_type {};  // told: whatever it returns is dropped
template <class Value, Question M>
struct IsReply<Value, M> : std::bool_constant<std::is_void_v<typename M::Reply> ||
                                              std::is_convertible_v<Value, Result<typename M::Reply>>> {};
template <class Value, Question M>
struct IsReply<Task<Value>, M>
    : std::bool_constant<(std::is_void_v<Value> && std::is_void_v<typename M::Reply>) ||
                         std::is_convertible_v<Value, Result<typename M::Reply>>> {};
template <class Returned, class M>
concept ReturnsReply = IsReply<Returned, M>::value;

inline Error failure(std::exception_ptr error) {
  try {
    std::rethrow_exception(std::move(error));
  } catch (const std::exception& exception) {
    return {ErrorCode::kFailed, exception.what()};
  } catch (...) {
    return {ErrorCode::kFailed};
  }
}

/// A coroutine handler in progress. Keeps the message, to which the handler's parameter may refer.
template <class M, class T>
class HandlerActivation : public Activation, public Pooled {
 public:
  HandlerActivation(std::unique_ptr<Message<M>> message, Task<T> task)
      : Activation(Role::kHandler), message_(std::move(message)), task_(std::move(task)) {
    task_.handle().promise().set_activation(*this);
  }
  std::coroutine_handle<> root() const override { return task_.handle(); }
  void finish() override {
    if constexpr (Question<M>) {
      try {
        if constexpr (std::is_void_v<T>) {
          task_.handle().promise().take();
          if constexpr (std::is_void_v<typename M::Reply>) message_->reply.answer({});
        } else {
          message_->reply.answer(task_.handle().promise().take());
        }
      } catch (...) {
        message_->reply.answer(failure(std::current_exception()));
        throw;
      }
    } else {
      task_.handle().promise().take();
    }
  }

 private:
  std::unique_ptr<Message<M>> message_;
  Task<T> task_;
};

/// Takes the message over if the handler is a coroutine.
template <class A, class M>
void call(A& actor, Cell& cell, std::unique_ptr<Message<M>>& message) {
  if constexpr (AnswersLater<A, M>) {
    using Returned = decltype(actor.on(std::move(message->payload), std::move(message->reply)));
    if constexpr (std::is_same_v<Returned, Task<void>>) {
      Returned task = actor.on(std::move(message->payload), std::move(message->reply));
      cell.begin(std::make_unique<HandlerActivation<M, void>>(std::move(message), std::move(task)));
    } else if constexpr (std::is_void_v<Returned>) {
      actor.on(std::move(message->payload), std::move(message->reply));
    } else {
      misuse<HandlerWithReplyToReturns<A, M, Returned>>();
    }
  } else {
    using Returned = decltype(actor.on(std::move(message->payload)));
    if constexpr (!ReturnsReply<Returned, M>) {
      misuse<HandlerReturnsNoReplyTo<A, M, Returned>>();
    } else if constexpr (kIsTask<Returned>) {
      using Value = typename Returned::Value;
      Returned task = actor.on(std::move(message->payload));
      cell.begin(std::make_unique<HandlerActivation<M, Value>>(std::move(message), std::move(task)));
    } else if constexpr (Question<M>) {
      if constexpr (std::is_void_v<typename M::Reply>) {
        actor.on(std::move(message->payload));
        message->reply.answer({});
      } else {
        message->reply.answer(actor.on(std::move(message->payload)));
      }
    } else {
      actor.on(std::move(message->payload));
    }
  }
}

template <class A, class M>
requires(!Handles<A, M>) void handle(Cell&, Node*) {
  misuse<ActorHasNoHandlerFor<A, M>>();
}

template <class A, class M>
requires Handles<A, M>
void handle(Cell& cell, Node* node) {
  std::unique_ptr<Message<M>> message(static_cast<Message<M>*>(node));
  A& actor = static_cast<A&>(*cell.actor());
  if constexpr (Question<M>) {
    if (message->deadline != TimePoint::max() && message->deadline <= Clock::now()) {
      message->reply.answer(ErrorCode::kDeadline);
      return;
    }
  }
  try {
    call<A, M>(actor, cell, message);
  } catch (...) {  // a plain handler's; a coroutine's exceptions stay in its activation
    const std::exception_ptr error = std::current_exception();
    if constexpr (Question<M>) message->reply.answer(failure(error));
    message.reset();
    cell.fail(error);
  }
}

template <class A, class Accepted>
struct Dispatch;

template <class A, class... Ms>
struct Dispatch<A, Messages<Ms...>> {
  static void run([[maybe_unused]] Cell& cell, Node* node) {
    [[maybe_unused]] const void* tag = node->ops->tag;
    const bool found = ((tag == &kMessageTag<Ms> && (handle<A, Ms>(cell, node), true)) || ...);
    REPRISE_CHECK(found, "an actor received a message that it has no handler for");
  }
};

void begin_start(Cell& cell, Task<void> on_start);

template <class A>
void start(Cell& cell) {
  A& actor = static_cast<A&>(*cell.actor());
  try {
    if constexpr (kIsTask<decltype(actor.on_start())>) {
      begin_start(cell, actor.on_start());
    } else {
      actor.on_start();
      cell.started();
    }
  } catch (...) {
    cell.fail(std::current_exception());
  }
}

template <class A>
void stop(Cell& cell) {
  static_cast<A&>(*cell.actor()).on_stop();
}

template <class A>
void destroy(Actor* actor) {
  static_cast<A*>(actor)->~A();
}

template <class A>
constexpr ActorType describe() {
  ActorType type{};
  type.name = kTypeName<A>;
  if constexpr (requires { A::kName; }) type.name = A::kName;
  if constexpr (requires { A::kMailbox; }) type.mailbox = A::kMailbox;
  type.most_handlers = 1;
  if constexpr (requires { A::kConcurrentHandlers; }) type.most_handlers = A::kConcurrentHandlers;
  type.dispatch = &Dispatch<A, typename A::Accepts>::run;
  type.on_start = nullptr;
  type.on_stop = nullptr;
  if constexpr (requires(A & actor) { actor.on_start(); }) type.on_start = &start<A>;
  if constexpr (requires(A & actor) { actor.on_stop(); }) type.on_stop = &stop<A>;
  type.destroy = &destroy<A>;
  return type;
}

template <class A>
inline constexpr ActorType kType = describe<A>();

// -- making an actor: on the spawner's thread; with a parent, in a turn of the parent

/// Lets the constructor of Actor find its cell.
class Construction {
 public:
  explicit Construction(Cell& cell);
  ~Construction();
  static Cell* current();

 private:
  Cell* outer_;
};

/// Keeps copies of the arguments, to make the actor again.
template <class A, class... Args>
class Remake : public ActorFactory {
 public:
  explicit Remake(const Args&... args) : arguments_(args...) {}
  Actor* make(Cell& cell) override {
    const Construction construction(cell);
    return std::apply([&](const Args&... args) -> Actor* { return new (cell.actor_storage()) A(args...); },
                      arguments_);
  }

 private:
  std::tuple<Args...> arguments_;
};

/// A new cell that nobody knows yet. Throws SystemStopped.
CellPtr make_cell(SystemCore& core, Cell* parent, const ActorType& type, std::size_t actor_bytes,
                  std::size_t actor_alignment, const SpawnOptions& options);
/// Enters the cell, now with its actor, into its home. Throws SystemStopped.
void launch_cell(Cell& cell);

template <class A, class... Args>
RefOf<A> spawn(SystemCore& core, Cell* parent, const SpawnOptions& options, Args&&... args) {
  static_assert(std::is_base_of_v<Actor, A>, "an actor class derives from Actor");
  CellPtr cell = make_cell(core, parent, kType<A>, sizeof(A), alignof(A), options);
  if (options.on_failure.action == OnFailure::Do::kRestart) {
    if constexpr ((std::is_copy_constructible_v<std::decay_t<Args>> && ...) &&
                  std::is_constructible_v<A, const std::decay_t<Args>&...>) {
      cell->set_factory(std::make_unique<Remake<A, std::decay_t<Args>...>>(args...));
    } else {
      throw std::invalid_argument(
          std::string("an actor that is to be restarted needs arguments that can be copied: ") +
          kType<A>.name);
    }
  }
  {
    const Construction construction(*cell);
    cell->set_actor(new (cell->actor_storage()) A(std::forward<Args>(args)...));
  }
  launch_cell(*cell);
  return RefOf<A>(std::move(cell));
}

SystemCore& core_of(const Cell& cell);

}  // namespace actor_detail

template <class A, class... Args>
RefOf<A> Actor::spawn(SpawnOptions options, Args&&... args) {
  REPRISE_CHECK(Cell::current() == cell_, "a child was spawned outside its parent's turns");
  return actor_detail::spawn<A>(actor_detail::core_of(*cell_), cell_, options, std::forward<Args>(args)...);
}

}  // namespace reprise::runtime
