#pragma once
// How to write an actor:
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
// A handler is `on(M)`, which takes M by value, const reference or rvalue reference, and returns
//   void, Task<void>     if M has no Reply;
//   Reply, Task<Reply>   if M is a question; or Result<Reply> in place of Reply, if it may fail.
// A handler that answers later takes ReplyTo<Reply> as its second parameter and returns void or Task<void>.
// Use launch() for long-running work: System::stop() waits for suspended handlers before it stops actors.
// Turns of an actor never overlap. A class may also declare:
//   static constexpr MailboxSpec kMailbox{...}
//       Capacity and overload policy (runtime/detail/mailbox.h).
//   static constexpr std::uint32_t kConcurrentHandlers = n
//       Max coroutine handlers suspended at once. Default 1: the next message waits until the handler has
//       ended (a serial actor). With more, the actor is reentrant: its state may change at every co_await.
//   static constexpr const char* kName = "..."
//       Name in messages and profiles; default: the type's name.
//   void on_start() / Task<void> on_start()
//       First turn, on the executor; messages wait until it has ended.
//   void on_stop()
//       Last turn of an orderly stop; not called after a failure.
// An exception that leaves any of these fails the actor (runtime/supervision.h).
//
// Threading: the constructor runs on the spawner's thread, everything else on the actor's executor. The
// constructor may only store its arguments; code that needs the actor's reference, children or turns belongs
// in on_start().

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

template <class A>
using RefOf = typename actor_detail::RefFor<typename A::Accepts>::Type;

/// The executor of an actor, fixed for its life.
struct Placement {
  enum class Kind : std::uint8_t {
    kPool,       // a worker of the pool, chosen by load
    kNear,       // the executor of the spawning actor; sends between the two need no atomics
    kOwnThread,  // a thread for this actor alone, which may block
    kHome,       // `executor`: a host's io_context (runtime/interop/asio_executor.h)
  };
  Kind kind = Kind::kPool;
  ExecutorPtr executor{};

  static Placement pool() { return {}; }
  static Placement near() { return {.kind = Kind::kNear}; }
  static Placement own_thread() { return {.kind = Kind::kOwnThread}; }
  static Placement on(ExecutorPtr executor) { return {.kind = Kind::kHome, .executor = std::move(executor)}; }
};

struct SpawnOptions {
  std::string name{};  // interned, never freed (runtime/names.h); empty: the class's name
  Placement placement{};
  OnFailure on_failure{};
};

/// Base class of all actors, with the operations on itself.
class Actor {
 public:
  Actor();
  virtual ~Actor() = default;
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  /// Not in the constructor: the actor is not complete yet.
  Cell& cell() const {
    require_constructed();
    return *cell_;
  }

 protected:
  ActorId id() const { return cell_->id(); }

  void stop();

  /// Runs `task` beside the handlers, from a turn of its own; it ends at the latest with the actor.
  void launch(Task<void> task);

  /// Spawns a child: it stops when this actor stops or restarts, and its failures may escalate to it.
  template <class A, class... Args>
  RefOf<A> spawn(SpawnOptions options, Args&&... args);

 private:
  void require_constructed() const;

  Cell* const cell_;
};

/// The reference to an actor itself: `self(*this)`.
template <class A>
RefOf<A> self(A& actor) {
  return RefOf<A>(CellPtr(&static_cast<Actor&>(actor).cell()));
}

/// Sends `watcher` one Down when the actor of `ref` has stopped, immediately if it has.
template <class A, class... Ms>
void watch(A& watcher, const Ref<Ms...>& ref) {
  const Ref<Down> takes_down = self(watcher);  // does not compile unless the watcher takes Down
  ref.cell()->add_watcher(*takes_down.cell());
}

/// Thrown by spawn() if the system or the requested executor is stopping.
class SystemStopped : public std::runtime_error {
 public:
  SystemStopped() : std::runtime_error("the actor system is stopping") {}
};

namespace actor_detail {

// -- dispatch of a node to the handler of an actor class, on the actor's executor

template <class A, class M>
concept AnswersLater = Question<M> && requires(A& actor, M message, ReplyTo<typename M::Reply> reply) {
  actor.on(std::move(message), std::move(reply));
};
template <class A, class M>
concept Handles = AnswersLater<A, M> || requires(A& actor, M message) {
  actor.on(std::move(message));
};

/// True if the value returned by a handler without ReplyTo answers message M.
template <class Value, class M>
struct IsReply : std::true_type {};  // not a question: the returned value is dropped
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

/// A coroutine handler in progress. Owns the message, which the handler's parameter may reference.
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

/// Calls the handler; moves from `message` if the handler is a coroutine.
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
  } catch (...) {  // from a plain handler; a coroutine's exception is stored in its activation
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
  type.max_handlers = 1;
  if constexpr (requires { A::kConcurrentHandlers; }) type.max_handlers = A::kConcurrentHandlers;
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

// -- spawning: on the spawner's thread, or for a child in a turn of its parent

/// Lets the constructor of Actor find its cell.
class Construction {
 public:
  explicit Construction(Cell& cell);
  ~Construction();
  static Cell* current();

 private:
  Cell* outer_;
};

/// Re-creates the actor on restart, from copies of its constructor arguments.
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

/// Creates the cell without its actor. Throws SystemStopped.
CellPtr make_cell(SystemCore& core, Cell* parent, const ActorType& type, std::size_t actor_bytes,
                  std::size_t actor_alignment, const SpawnOptions& options);
/// Registers the cell, which has its actor, with its executor. Throws SystemStopped.
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
