#pragma once
// From a node to the handler of an actor class: the generated half of runtime/actor.h, which includes this.
//
// Threading: the actor's home.

#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/actor_class.h"

namespace reprise::runtime::actor_detail {

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

}  // namespace reprise::runtime::actor_detail
